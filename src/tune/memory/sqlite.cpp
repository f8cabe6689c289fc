#include "tune/memory/sqlite.h"

#include "base/shared_library.h"

namespace toroid::tune {
namespace {

constexpr int kOk = 0, kRow = 100, kDone = 101;
constexpr int kOpenReadOnly = 1, kOpenReadWrite = 2, kOpenCreate = 4, kOpenUri = 64;

// Declared as in sqlite3.h.
struct Library {
  Library()
      : file("SQLite, which remembers what was tuned,", kNames, "", "Install it (Debian: apt-get install libsqlite3-0)."),
        open(file.function<int(const char*, sqlite3**, int, const char*)>("sqlite3_open_v2")),
        close(file.function<int(sqlite3*)>("sqlite3_close_v2")),
        busy_timeout(file.function<int(sqlite3*, int)>("sqlite3_busy_timeout")),
        exec(file.function<int(sqlite3*, const char*, void*, void*, char**)>("sqlite3_exec")),
        message(file.function<const char*(sqlite3*)>("sqlite3_errmsg")),
        prepare(file.function<int(sqlite3*, const char*, int, sqlite3_stmt**, const char**)>("sqlite3_prepare_v2")),
        finalize(file.function<int(sqlite3_stmt*)>("sqlite3_finalize")),
        step(file.function<int(sqlite3_stmt*)>("sqlite3_step")),
        reset(file.function<int(sqlite3_stmt*)>("sqlite3_reset")),
        bind_text(file.function<int(sqlite3_stmt*, int, const char*, int, void*)>("sqlite3_bind_text")),
        bind_double(file.function<int(sqlite3_stmt*, int, double)>("sqlite3_bind_double")),
        bind_int64(file.function<int(sqlite3_stmt*, int, int64_t)>("sqlite3_bind_int64")),
        column_text(file.function<const unsigned char*(sqlite3_stmt*, int)>("sqlite3_column_text")),
        column_double(file.function<double(sqlite3_stmt*, int)>("sqlite3_column_double")),
        column_int64(file.function<int64_t(sqlite3_stmt*, int)>("sqlite3_column_int64")) {}

  static constexpr const char* kNames[] = {"libsqlite3.so.0", "libsqlite3.so"};
  SharedLibrary file;
  int (*open)(const char*, sqlite3**, int, const char*);
  int (*close)(sqlite3*);
  int (*busy_timeout)(sqlite3*, int);
  int (*exec)(sqlite3*, const char*, void*, void*, char**);
  const char* (*message)(sqlite3*);
  int (*prepare)(sqlite3*, const char*, int, sqlite3_stmt**, const char**);
  int (*finalize)(sqlite3_stmt*);
  int (*step)(sqlite3_stmt*);
  int (*reset)(sqlite3_stmt*);
  int (*bind_text)(sqlite3_stmt*, int, const char*, int, void*);
  int (*bind_double)(sqlite3_stmt*, int, double);
  int (*bind_int64)(sqlite3_stmt*, int, int64_t);
  const unsigned char* (*column_text)(sqlite3_stmt*, int);
  double (*column_double)(sqlite3_stmt*, int);
  int64_t (*column_int64)(sqlite3_stmt*, int);
};

const Library& library() {
  static const Library* const l = new Library;  // never destroyed: connections may outlive main
  return *l;
}

// The path as a URI.
std::string uri(const std::string& path, const char* query) {
  std::string out = "file:";
  for (char c : path) {
    if (c == '?')
      out += "%3f";
    else if (c == '#')
      out += "%23";
    else if (c == '%')
      out += "%25";
    else
      out += c;
  }
  return out + query;
}

}  // namespace

Sqlite::Sqlite(const std::string& path, Mode mode, int wait_ms) {
  const int code = mode == Mode::Read ? library().open(uri(path, "?immutable=1").c_str(), &db_, kOpenReadOnly | kOpenUri, nullptr)
                                      : library().open(path.c_str(), &db_, kOpenReadWrite | kOpenCreate, nullptr);
  if (code != kOk) {
    const SqliteError e{code & 0xff, db_ ? library().message(db_) : "no memory"};
    library().close(db_);
    throw e;
  }
  library().busy_timeout(db_, wait_ms);
}

Sqlite::~Sqlite() {
  if (db_) library().close(db_);
}

void Sqlite::check(int code) {
  if (code != kOk && code != kRow && code != kDone) throw SqliteError{code & 0xff, library().message(db_)};
}

void Sqlite::run(const char* sql) { check(library().exec(db_, sql, nullptr, nullptr, nullptr)); }

Sqlite::Statement::Statement(Sqlite& db, const char* sql) : db_(db) { db.check(library().prepare(db.db_, sql, -1, &statement_, nullptr)); }
Sqlite::Statement::~Statement() { library().finalize(statement_); }

Sqlite::Statement& Sqlite::Statement::bind(std::string_view text) {
  db_.check(library().bind_text(statement_, next_++, text.data(), static_cast<int>(text.size()), nullptr));
  return *this;
}

Sqlite::Statement& Sqlite::Statement::bind(double value) {
  db_.check(library().bind_double(statement_, next_++, value));
  return *this;
}

Sqlite::Statement& Sqlite::Statement::bind(int64_t value) {
  db_.check(library().bind_int64(statement_, next_++, value));
  return *this;
}

bool Sqlite::Statement::step() {
  const int code = library().step(statement_);
  db_.check(code);
  return code == kRow;
}

void Sqlite::Statement::reset() {
  library().reset(statement_);
  next_ = 1;
}

std::string Sqlite::Statement::text(int column) {
  const auto* t = reinterpret_cast<const char*>(library().column_text(statement_, column));
  return t ? t : "";
}

double Sqlite::Statement::real(int column) { return library().column_double(statement_, column); }
int64_t Sqlite::Statement::integer(int column) { return library().column_int64(statement_, column); }

}  // namespace toroid::tune
