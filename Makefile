# The targets of the project; `make` lists them.  The work is done in scripts/.

EMACS ?= emacs
export EMACS SUITE MATCH EVERYTHING

.PHONY: help build compile doc dist test newest embed windows macos coverage mutants miri conformance soak \
	endurance bench screenshot record demo lint arrows fmt release-check rehearse clean distclean

help: ## List these targets
	@echo 'make TARGET, where TARGET is one of'
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' Makefile

build: ## Build the native module and put it beside the Lisp files
	@scripts/bootstrap build
	scripts/build

compile: ## Byte-compile the Lisp files; a warning is an error
	@scripts/bootstrap build
	$(EMACS) -Q --batch -L lisp --eval '(setq byte-compile-error-on-warn t load-prefer-newer t)' \
		-f batch-byte-compile lisp/*.el

doc: ## Make the Info manual, docs/gemini-companion.info
	@scripts/bootstrap doc
	makeinfo --no-split --output docs/gemini-companion.info docs/gemini-companion.texi

dist: ## Make the package in dist/, with the module if it is built, and try to install it
	@scripts/bootstrap dist
	@scripts/dist

test: ## Run the tests, EVERYTHING=1, or those of SUITE=quick|rust|node|lisp|e2e or MATCH=REGEXP
	@scripts/bootstrap test
	scripts/build
	@scripts/test

newest: ## Run the Lisp tests in the newest Emacs that Debian has; needs Debian 12
	@scripts/bootstrap test
	scripts/build
	@scripts/emacs-30 --newest
	@SUITE=lisp EMACS=$(CURDIR)/.cache/emacs-newest/emacs scripts/test

embed: ## Load the module in a small program that is no Emacs, in Valgrind
	@scripts/bootstrap embed
	scripts/build
	@scripts/embed

windows: ## Compile the module and the Rust tests for Windows, and run them in Wine; needs Debian 12
	@scripts/bootstrap windows
	@scripts/windows

macos: ## Check that the module and the Rust tests compile for macOS; needs Debian 12
	@scripts/bootstrap macos
	@scripts/macos

coverage: ## Run all tests and print the share of lines that ran, for each file
	@scripts/bootstrap test
	@scripts/bootstrap coverage
	@scripts/coverage

mutants: ## Break each of FILES of src/companion in many ways, and print what no Rust test notices
	@scripts/bootstrap build
	@scripts/mutants $(FILES)

miri: ## Run unit tests of the Rust library in Miri, which notices undefined behavior
	@scripts/bootstrap miri
	@scripts/miri

conformance: ## Run MCP's own conformance suite against a batch Emacs
	@scripts/bootstrap build
	scripts/build
	@scripts/conformance

soak: ## Test the server with many clients for minutes; SOAK_SESSIONS and SOAK_CALLS say how many
	@scripts/bootstrap build
	@scripts/soak

endurance: ## Keep a client connected, then press random keys while clients act, for ENDURANCE_MONKEY_MINUTES
	@scripts/bootstrap test
	scripts/build
	@scripts/endurance

bench: ## Measure what the companion costs in EMACS=PROGRAM, and print one table
	@scripts/bootstrap test
	scripts/build
	@scripts/bench

screenshot: ## Take pictures of a change in a graphical Emacs, GUI_EMACS, for docs/
	@scripts/bootstrap screenshot
	scripts/build
	@scripts/screenshot

record: ## Record a change, step by step, as docs/review.svg
	@scripts/bootstrap test
	@scripts/bootstrap extras
	scripts/build
	@scripts/record

demo: ## Show the companion at work with Gemini CLI's client, in a scripted session
	@scripts/bootstrap demo
	scripts/build
	@scripts/demo

lint: ## Check formatting, style and packaging
	@scripts/bootstrap lint
	@scripts/lint

release-check: ## Build the published module twice and compare; downloads 0.5 GB of tools
	@scripts/bootstrap release
	@scripts/release-check

rehearse: ## Do what a release does, from a tag to a used package; Debian 12, takes 20 minutes
	@scripts/bootstrap rehearse
	@scripts/rehearse

arrows: ## Draw in ARCHITECTURE.md which files use which
	@scripts/bootstrap arrows
	@$(EMACS) -Q --batch -l scripts/arrows.el -f gemini-companion-arrows-draw

fmt: ## Format the Rust sources
	cargo fmt --all

clean: ## Remove what the other targets built
	rm -rf target lisp/*.elc lisp/*-autoloads.el lisp/*.so lisp/*.dylib lisp/*.dll dist docs/*.info

distclean: clean ## Also remove downloaded tools and clients
	rm -rf .cache .eask test/e2e/client/node_modules test/e2e/qwen/node_modules test/e2e/sdk/node_modules \
		test/e2e/lsp/node_modules test/node/node_modules
