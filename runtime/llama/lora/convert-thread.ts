import { readFileSync, writeFileSync } from "node:fs";
import { parentPort, workerData } from "node:worker_threads";
import { AdapterRefusal } from "./adapter-refusal.ts";
import type { Conversion, ConversionEnd } from "./convert-file.ts";
import { convertPeft } from "./convert-peft.ts";

const { config, weights, gguf, base } = workerData as Conversion;
let end: ConversionEnd = { refusal: undefined };
try {
  writeFileSync(gguf, convertPeft(readFileSync(config, "utf8"), readFileSync(weights), base));
} catch (error) {
  // Any other error ends the thread and is reported to its parent.
  if (!(error instanceof AdapterRefusal)) throw error;
  end = { refusal: error.message };
}
parentPort?.postMessage(end);
