// Metrics of evaluations, in the report, the log and the page; averages of tied weights.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/files.h"
#include "toroid/model.h"
#include "toroid/nn.h"
#include "toroid/ops.h"
#include "toroid/train/trainer.h"
#include "train/harness.h"

namespace toroid::train {
namespace {

namespace fs = std::filesystem;

class Evaluations : public testing::Test {
 protected:
  Evaluations() {
    Tensor x = filled({10, 3}, 0), y = filled({10}, 0, DType::I64);
    for (int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = std::sin(1.3f * static_cast<float>(i));
    for (int64_t i = 0; i < 10; ++i) y.data<int64_t>()[i] = i % 2;
    rows_ = std::make_unique<TensorData>(std::vector<Tensor>{x, y});
    net_.add<nn::Linear>(3, 2);
    net_.add<nn::Dropout>(0.5);
    optimizer_ = std::make_unique<SGD>(net_.parameters(), SGDOptions{.lr = 0.1});
  }
  ~Evaluations() override { fs::remove_all(folder_); }
  std::unique_ptr<Trainer> trainer(TrainerOptions options) {
    options.batch_size = 4;
    return std::make_unique<Trainer>(
        net_, [this](const Batch& b) { return cross_entropy(net_(b[0]), b[1]); }, *optimizer_, *rows_, options);
  }
  nn::NamedTensors accuracy_and_largest(const Batch& b) {
    const Tensor y = net_(b[0]);
    return {{"accuracy", mean(to(argmax(y, 1) == b[1], DType::F32))}, {"largest, of a batch", max(y)}};
  }
  const fs::path folder_ = make_temp_dir();
  nn::Sequential net_;
  std::unique_ptr<TensorData> rows_;
  std::unique_ptr<SGD> optimizer_;
};

TEST_F(Evaluations, MetricsAreMeansOverBatchesInEvaluationMode) {
  const auto t = trainer({.perplexity = true});
  t->set_evaluation(*rows_, [&](const Batch& b) { return accuracy_and_largest(b); });
  t->step();
  const EvaluationReport r = t->evaluate();
  net_.eval();
  double right = 0, largest = 0, loss = 0;
  for (int64_t batch = 0; batch < 2; ++batch) {
    std::vector<int64_t> samples;
    for (int64_t i = 0; i < 4; ++i) samples.push_back(batch * 4 + i);
    const Batch b = rows_->batch(samples);
    const auto metrics = accuracy_and_largest(b);
    right += metrics[0].second.item() / 2, largest += metrics[1].second.item() / 2;
    loss += cross_entropy(net_(b[0]), b[1]).item() / 2;
  }
  ASSERT_EQ(r.metrics.size(), 3u);
  EXPECT_EQ(r.metrics[0].first, "accuracy");
  EXPECT_NEAR(r.metrics[0].second, right, 1e-6);
  EXPECT_NEAR(r.metrics[1].second, largest, 1e-6);
  EXPECT_NEAR(r.loss, loss, 1e-6);
  EXPECT_EQ(r.metrics[2].first, "perplexity");
  EXPECT_NEAR(r.metrics[2].second, std::exp(r.loss), 1e-9);
  char expected[64];
  std::snprintf(expected, sizeof expected, "  accuracy %.4f  largest, of a batch %.4f  perplexity ", right, largest);
  EXPECT_NE(to_string(r).find(expected), std::string::npos) << to_string(r);
  t->set_evaluation(*rows_);  // without them
  EXPECT_EQ(t->evaluate().metrics.size(), 1u);
}

// What an earlier process has written is read again for the page.
TEST_F(Evaluations, LogAndPageHaveMetrics) {
  const auto run = [&](int64_t steps) {
    const auto t = trainer({.steps = steps, .evaluate_every = 1, .folder = folder_.string()});
    t->set_evaluation(*rows_, [&](const Batch& b) {
      auto out = accuracy_and_largest(b);
      out.emplace_back("none", log(filled({}, -1)));
      return out;
    });
    t->resume();
    t->run();
  };
  run(2);
  const std::string before = read_file(folder_ / "log.jsonl");
  EXPECT_NE(before.find(",\"metrics\":{\"accuracy\":"), std::string::npos) << before;
  EXPECT_NE(before.find("\"largest, of a batch\":"), std::string::npos) << before;
  EXPECT_NE(before.find("\"none\":null}}\n"), std::string::npos) << before;
  run(4);
  const std::string page = read_file(folder_ / "training.html");
  for (const char* title : {"<h2>accuracy</h2>", "<h2>largest, of a batch</h2>"}) {
    const size_t at = page.find(title);
    ASSERT_NE(at, std::string::npos) << title;
    const std::string plot = page.substr(at, page.find("</svg>", at) - at);
    size_t marks = 0;
    for (size_t i = plot.find("<circle"); i != plot.npos; i = plot.find("<circle", i + 1)) ++marks;
    EXPECT_EQ(marks, 4u) << plot;
  }
}

TEST_F(Evaluations, RefuseWhatIsNoMetric) {
  const auto t = trainer({.perplexity = true});
  const auto refused = [&](const std::string& name, const Tensor& value) {
    return refusal_of([&] {
      t->set_evaluation(*rows_, [&](const Batch&) { return nn::NamedTensors{{"first", ones({})}, {name, value}}; });
      t->evaluate();
    });
  };
  EXPECT_EQ(refused("a", ones({1})), "no error");
  EXPECT_EQ(refused("a", ones({3})), "evaluate: the metric \"a\" is not one number; reduce it, as with mean()");
  EXPECT_NE(refused("a", Tensor()).find("is not one number"), std::string::npos);
  EXPECT_EQ(refused("first", ones({})), "evaluate: there are two metrics \"first\"");
  EXPECT_EQ(refused("perplexity", ones({})), "evaluate: there are two metrics \"perplexity\"");
  EXPECT_EQ(refused("Präzision", ones({})), "no error");
  for (const char* name : {"", "a\"b", "a\nb", "a\\b"}) EXPECT_NE(refused(name, ones({})).find("needs a name"), std::string::npos) << name;
}

// The file of averages has all names of tied weights, so that it loads in place of the weights.
TEST_F(Evaluations, AveragesOfTiedWeights) {
  struct Tied : nn::Module {
    Tied() {
      add_child("words", words), add_child("head", head);
      head.weight = words.weight;
    }
    nn::Embedding words{4, 3};
    nn::Linear head{3, 4, false};
  } model;
  const TensorData ids({Tensor::of({0, 1, 2, 3}, {4}, DType::I64)});
  SGD optimizer(model.parameters(), {.lr = 0.5});
  Trainer t(model, [&](const Batch& b) { return cross_entropy(model.head(model.words(b[0])), b[0]); }, optimizer, ids,
            {.steps = 3, .batch_size = 4, .ema_decay = 0.5, .folder = folder_.string()});
  t.run();
  Tied average;
  average.load((folder_ / "step-000003/ema/model.safetensors").string());
  EXPECT_EQ(t.averages().size(), 1u);
  EXPECT_EQ(average.words.weight.to_vector(), t.averages()[0].second.to_vector());
  EXPECT_NE(average.words.weight.to_vector(), model.words.weight.to_vector());
}

}  // namespace
}  // namespace toroid::train
