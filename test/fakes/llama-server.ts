// llama.cpp's own server, from a Python package that contains it (scripts/nightly-python-llama.txt).
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { isNightly } from "./nightly.ts";
import { atWorkerEnd } from "./worker-end.ts";

const python = join(import.meta.dirname, "../../.cache/nightly-python-llama/bin/python3");

/** Says loudly what stays unproven where the server is missing. */
export function hasLlamaServer(promise: string): boolean {
  if (!isNightly) return false;
  if (existsSync(python)) return true;
  process.stderr.write(`\nNOT PROVEN: ${promise}: no ${python} (npm run test:nightly installs it)\n`);
  return false;
}

const program = `
import sys, xllamacpp
params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.model_alias = {sys.argv[2]}
params.n_ctx = 4096
params.n_parallel = 1
params.port = 0
params.warmup = False
params.use_jinja = True
if len(sys.argv) > 3: params.chat_template = open(sys.argv[3]).read()
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(params)
print("listening on", server.listening_address, flush=True)
sys.stdin.read()
`;

export interface LlamaServer {
  readonly origin: string;
  stop(): Promise<void>;
}

/** `template`: file of a chat template, in place of the model's own. */
export async function startLlamaServer(model: string, name: string, template?: string): Promise<LlamaServer> {
  const args = ["-c", program, model, name, ...(template === undefined ? [] : [template])];
  const child = spawn(python, args, { stdio: ["pipe", "pipe", "ignore"] });
  const forget = atWorkerEnd(() => child.kill("SIGKILL"));
  const exited = once(child, "exit");
  const ready = (async () => {
    for await (const line of createInterface({ input: child.stdout })) {
      const origin = /^listening on (http:\S+)/.exec(line)?.[1];
      if (origin !== undefined) return origin;
    }
    throw new Error("llama.cpp's server did not start");
  })();
  const origin = await ready;
  return {
    origin,
    stop: async () => {
      child.kill("SIGKILL");
      await exited;
      forget();
    },
  };
}
