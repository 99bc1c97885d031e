// The linter looks for what is wrong; how programs look is not its business.

import js from '@eslint/js';

// What Node has without an import, and is used.
const NODE = ['AbortController', 'Buffer', 'TextDecoderStream', 'URL', 'clearInterval',
  'clearTimeout', 'console', 'fetch', 'performance', 'process', 'setImmediate', 'setInterval', 'setTimeout'];

export default [
  js.configs.recommended,
  {
    files: ['**/*.mjs'],
    languageOptions: { globals: Object.fromEntries(NODE.map((it) => [it, 'readonly'])) },
    // What a terminal is told has control characters.
    rules: { 'no-control-regex': 'off' },
    linterOptions: { reportUnusedDisableDirectives: 'error' },
  },
];
