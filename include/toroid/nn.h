// All of toroid/nn: modules, models, and weights from Hugging Face folders.
#pragma once

#include "toroid/nn/compile.h"
#include "toroid/nn/layers.h"
#include "toroid/nn/models/bert.h"
#include "toroid/nn/models/gpt2.h"
#include "toroid/nn/models/llama.h"
#include "toroid/nn/models/resnet.h"
#include "toroid/nn/pretrained.h"
