// Inside the image build: loads the inference engine, so that a library the base image lacks fails the build.
import { getLlama } from "node-llama-cpp";

const llama = await getLlama({ gpu: false, build: "never", progressLogs: false });
console.log(`llama.cpp loads; its vector extensions: ${llama.systemInfo}`);
await llama.dispose();
