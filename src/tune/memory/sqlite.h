// The few functions of SQLite that the tuning database needs; the library is opened at run time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

struct sqlite3;
struct sqlite3_stmt;

namespace toroid::tune {

struct SqliteError {
  int code = 0;
  std::string text;
  bool damaged() const { return code == 11 || code == 26; }  // SQLITE_CORRUPT, SQLITE_NOTADB
  bool busy() const { return code == 5 || code == 6; }       // SQLITE_BUSY, SQLITE_LOCKED
  bool readonly() const { return code == 8 || code == 14; }  // SQLITE_READONLY, SQLITE_CANTOPEN
};

// A connection, for one thread at a time. All functions throw SqliteError; EnvironmentError where there is no SQLite.
class Sqlite {
 public:
  enum class Mode { Write, Read };
  // Read: as the file is, without looking at what others write meanwhile.
  Sqlite(const std::string& path, Mode mode, int wait_ms);
  ~Sqlite();
  Sqlite(const Sqlite&) = delete;
  Sqlite& operator=(const Sqlite&) = delete;

  void run(const char* sql);
  // In a process that was forked: the connection is the parent's, and is left alone.
  void abandon() { db_ = nullptr; }

  class Statement {
   public:
    Statement(Sqlite& db, const char* sql);
    ~Statement();
    Statement(const Statement&) = delete;
    Statement& operator=(const Statement&) = delete;

    // Values of the question marks, in order. Texts must live until the next step.
    Statement& bind(std::string_view text);
    Statement& bind(double value);
    Statement& bind(int64_t value);
    // The next row; false when there is none.
    bool step();
    // To be bound and stepped again.
    void reset();
    std::string text(int column);
    double real(int column);
    int64_t integer(int column);

   private:
    Sqlite& db_;
    sqlite3_stmt* statement_ = nullptr;
    int next_ = 1;
  };

 private:
  void check(int code);
  sqlite3* db_ = nullptr;
};

}  // namespace toroid::tune
