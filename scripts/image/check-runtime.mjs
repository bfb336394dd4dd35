// Inside the image build: loads the inference engines, so that a library the base image lacks fails the build.
// Builds run without a GPU, so CUDA builds are only checked for presence.
import { existsSync, globSync } from "node:fs";
import { getLlama } from "node-llama-cpp";

const llama = await getLlama({ gpu: false, build: "never", progressLogs: false });
console.log(`llama.cpp loads; its vector extensions: ${llama.systemInfo}`);
console.log(`llama.cpp's CUDA build is ${isInside("@node-llama-cpp/linux-x64-cuda/bins/**/libggml-cuda.so")}`);
await llama.dispose();

if (existsSync("node_modules/onnxruntime-node")) {
  const { listSupportedBackends } = await import("onnxruntime-node");
  const names = listSupportedBackends().map((backend) => backend.name);
  const provider = isInside("onnxruntime-node/bin/**/libonnxruntime_providers_cuda.so");
  console.log(`ONNX Runtime loads (${names.join(", ")}); its CUDA provider is ${provider}`);
} else console.log("ONNX Runtime is not inside");

function isInside(pattern) {
  return globSync(`node_modules/${pattern}`).length > 0 ? "inside" : "not inside";
}
