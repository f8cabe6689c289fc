# The developer's commands. Each works on a bare Debian 12: what is missing is installed first (scripts/setup.sh).
BUILD := build
JOBS ?= $(shell nproc)
# What cmake is told besides: make OPTIONS=-DTOROID_UNITY_SIZE=8
OPTIONS ?=

.PHONY: build demo test bench format check clean setup configure

build: configure
	@cmake --build $(BUILD) -j $(JOBS)

setup:
	@scripts/setup.sh

configure: setup
	@cmake --preset release $(OPTIONS) --log-level=WARNING >/dev/null

demo: configure
	@cmake --build $(BUILD) -j $(JOBS) --target toroid_demo_digits toroid_demo_train_digits
	@$(BUILD)/toroid_demo_digits
	@$(BUILD)/toroid_demo_train_digits

test: build
	@ctest --test-dir $(BUILD) -j 2 --output-on-failure --no-tests=error
	@scripts/check.sh

bench: build
	@bench/run.sh $(BUILD)

format: setup
	@scripts/check.sh --fix

check: setup
	@scripts/check.sh

clean:
	@rm -rf build build-*
