// toroid-tune-worker: takes jobs from the socket that is its standard input, one after another, until that is closed.
#include <signal.h>
#include <sys/prctl.h>

#include "tune/isolate/worker/run_job.h"

int main() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // nobody is left to read the result
  if (!toroid::tune::send_message(0, std::string(toroid::tune::kWorkerHello))) return 1;
  std::string bytes;
  while (toroid::tune::receive_message(0, bytes)) {
    const toroid::tune::WorkerResult r = toroid::tune::run_job(toroid::tune::parse_request(bytes));
    if (!toroid::tune::send_message(0, toroid::tune::serialize(r))) return 1;
  }
  return 0;
}
