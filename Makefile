# Everything here is also a plain command; see CONTRIBUTING.md.
GO ?= go
FUZZTIME ?= 20s

.PHONY: help build test race lint fuzz e2e e2e-uring bench bench-server bench-driver bench-rated bench-scale bench-fileset clean fmt

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

# The CGI program has a quick start there, see cmd/tidemark-cgi.
QUICK = $(if $(filter linux/amd64,$(shell $(GO) env GOOS)/$(shell $(GO) env GOARCH)),-ldflags=-E=tidemark.dev/pages/quick.start)

build: ## build bin/tidemark and bin/tidemark-cgi
	$(GO) build -o bin/ ./cmd/tidemark
	$(GO) build $(QUICK) -o bin/ ./cmd/tidemark-cgi

test: ## run the tests
	$(GO) test ./...

race: ## run the tests under the race detector
	$(GO) test -race ./...

lint: ## layers, budgets, vet, format
	$(GO) vet ./...
	$(GO) test ./internal/lint
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); exit 1; }

# A run that ends with "context deadline exceeded" and no failing input is the fuzzer's own end coming late: once more.
fuzz: ## run every fuzz target for FUZZTIME
	@for p in $$($(GO) list ./...); do \
	  for f in $$($(GO) test -list '^Fuzz' $$p 2>/dev/null | grep '^Fuzz'); do \
	    echo "$$p $$f"; \
	    run() { $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1x $$p 2>&1; }; \
	    out=$$(run) || { echo "$$out" | grep -q 'context deadline exceeded' && ! echo "$$out" | grep -q 'Failing input' && out=$$(run); } || \
	      { echo "$$out"; exit 1; }; \
	    echo "$$out" | tail -n 1; \
	  done; \
	done

e2e: ## end-to-end tests, with nginx and Chromium where they are installed
	$(GO) test -count=1 -timeout 25m -tags e2e ./test/...

e2e-uring: ## end-to-end tests on io_uring, which the kernel must allow
	$(GO) test -count=1 -timeout 25m -tags e2e ./test/e2e -backend io_uring

bench: ## measure the embedded server on this machine
	$(GO) run ./cmd/tidemark bench

bench-server: ## measure the server beside others: bench/README.md
	$(GO) run ./bench/server --out=bench/results

bench-driver: ## measure the driver beside wrk and h2load
	$(GO) run ./bench/driver --out=bench/results

bench-rated: ## measure at line speed: slots of a driver core, server beside nginx
	$(GO) run ./bench/rated --out=bench/results

bench-scale: ## measure the cost of a request against connections, sets and sizes, and memory
	$(GO) run ./bench/scale --out=bench/results

bench-fileset: ## measure writing and verifying file sets beside dd
	$(GO) run ./bench/fileset --out=bench/results

fmt: ## format the code
	gofmt -w $$(git ls-files '*.go')

clean: ## remove what make built
	rm -rf bin
