// Threads may still compile while exit() runs, so that the static objects of LLVM and Clang, which are linked into this library, must
// outlive them: their destructors are not registered. Compilers call this function for each static object with a destructor.
extern "C" __attribute__((visibility("hidden"))) int __cxa_atexit(void (*)(void*), void*, void*) { return 0; }
