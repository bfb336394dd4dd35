// The fake engine as a process, for `up --external`, the bench and chaos runs. It answers at once unless told otherwise.
//   node test/fakes/engine-process.ts --port 0 --tokens 64 --model fake/model [--token-ms 5] [--frames-per-write 1]
// Prints `listening on http://127.0.0.1:PORT` and ends on SIGTERM, SIGINT or when its standard input closes (`--stdin`).
import { parseArgs } from "node:util";
import { startFakeEngine } from "./engine.ts";

const { values } = parseArgs({
  options: {
    port: { type: "string", default: "0" },
    tokens: { type: "string", default: "64" },
    model: { type: "string", multiple: true, default: ["fake/model"] },
    "first-byte-ms": { type: "string", default: "0" },
    "token-ms": { type: "string", default: "0" },
    "frames-per-write": { type: "string", default: "1" },
    usage: { type: "string", default: "extra" },
    stdin: { type: "boolean", default: false },
  },
});

const usage = values.usage;
if (usage !== "extra" && usage !== "finish" && usage !== "none")
  throw new Error(`--usage must be extra, finish or none, not ${usage}`);
const engine = await startFakeEngine({
  port: Number(values.port),
  tokens: Number(values.tokens),
  models: values.model,
  firstByteMs: Number(values["first-byte-ms"]),
  tokenMs: Number(values["token-ms"]),
  framesPerWrite: Number(values["frames-per-write"]),
  usage,
});
process.stdout.write(`listening on ${engine.origin}\n`);
const stop = () => void engine.close().then(() => process.exit(0));
process.once("SIGTERM", stop);
process.once("SIGINT", stop);
if (values.stdin) process.stdin.resume().once("end", stop);
