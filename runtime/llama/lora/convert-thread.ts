import { readFileSync, writeFileSync } from "node:fs";
import { serveCalls } from "../../threads/thread-calls.ts";
import { type BaseModel, convertPeft } from "./convert-peft.ts";

export type ConvertFunctions = typeof functions;

const functions = {
  /** Paths of the adapter's two files, and of the GGUF file that is written. Throws AdapterRefusal. */
  convert(config: string, weights: string, gguf: string, base: BaseModel): void {
    writeFileSync(gguf, convertPeft(readFileSync(config, "utf8"), readFileSync(weights), base));
  },
};

serveCalls(functions);
