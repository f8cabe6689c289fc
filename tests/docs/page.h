// The program of the documents' C++ blocks (scripts/docs.py): each page is a function, whose blocks begin when the script says so.
#pragma once

#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "toroid/error.h"

namespace toroid_docs {

// A page, or a program that a page's commands start.
struct Page {
  Page(const char* name, void (*f)(), bool is_program = false) : name(name), f(f), is_program(is_program) { all().push_back(this); }
  static std::vector<const Page*>& all() {
    static std::vector<const Page*> pages;
    return pages;
  }
  const std::string name;
  void (*const f)();
  const bool is_program;
};

// Whether the script wants the block to run that has begun; else it is one that needs what is not here.
inline bool wanted = true;

// Tells the script that a block begins, and waits for its answer.
inline void begin(int block) {
  std::cout.flush();
  std::fprintf(stdout, "\x1e%d\n", block);
  std::fflush(stdout);
  char answer[8] = {};
  if (!std::fgets(answer, sizeof answer, stdin)) std::exit(0);  // the script has seen enough
  wanted = std::strcmp(answer, "run\n") == 0;
}

inline bool never() { return false; }

template <class F>
void print_error(F&& f) {
  try {
    f();
    std::puts("nothing was thrown");
  } catch (const std::exception& e) {
    std::cout.flush();
    std::puts(e.what());
  }
}

inline int run(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 1 << 16);
  for (const Page* page : Page::all()) {
    if (argc < 2 || page->name != argv[1]) continue;
    try {
      page->f();
    } catch (const std::exception& e) {
      std::cout.flush();
      std::printf("error: %s\n", e.what());
      std::fflush(stdout);
      return 1;
    }
    std::cout.flush();
    if (!page->is_program) std::puts("\x1e");
    return 0;
  }
  std::fprintf(stderr, "docs_pages has no \"%s\" of this content; build it anew\n", argc < 2 ? "" : argv[1]);
  return 2;
}

}  // namespace toroid_docs
