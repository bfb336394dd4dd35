// A thread that holds sessions: opens graphs, runs them one after the other, sends the outputs back without a copy.
import { existsSync, renameSync, rmSync } from "node:fs";
import { parentPort } from "node:worker_threads";
import { env, InferenceSession, Tensor as OrtTensor, type Tensor, type TypedTensor } from "onnxruntime-node";
import type { IoInfo, TensorRef, TensorValue } from "./session.ts";
import type { Answer, Opened, OpenOptions, Question } from "./session-messages.ts";

const port = parentPort;
if (!port) throw new Error("session-thread.ts runs as a worker thread");

// What goes wrong is told in the answer; the library's own lines would stand between the log's.
env.logLevel = "fatal";

const sessions = new Map<number, InferenceSession>();
const held = new Map<number, Tensor>();
let lastSession = 0;
let lastRef = 0;
let turn: Promise<void> = Promise.resolve();

port.on("message", (question: Question) => {
  turn = turn.then(() => answer(question));
});

async function answer(question: Question): Promise<void> {
  if (question.kind === "release") {
    for (const ref of question.refs) free(ref);
    return;
  }
  if (question.kind === "close") {
    const closed = sessions.get(question.session);
    sessions.delete(question.session);
    // What does not let go is no reason not to answer others.
    await closed?.release().catch(() => {});
    return;
  }
  const { id } = question;
  try {
    if (question.kind === "open") send({ id, opened: await open(question.options) });
    else await run(question);
  } catch (error) {
    send({ id, failure: error instanceof Error ? error.message : String(error) });
  }
}

async function open(options: OpenOptions): Promise<Opened> {
  const refused: string[] = [];
  for (const provider of options.providers) {
    try {
      const session = await create(options, provider);
      lastSession += 1;
      sessions.set(lastSession, session);
      return {
        session: lastSession,
        inputs: session.inputMetadata.map(ioInfo),
        outputs: session.outputMetadata.map(ioInfo),
        provider,
        refused,
      };
    } catch (error) {
      refused.push(`${provider}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  throw new Error(refused.at(-1)?.replace(/^\w+: /, "") ?? "no execution provider was asked for");
}

async function create(options: OpenOptions, provider: string): Promise<InferenceSession> {
  const { path, threads, isMemoryTight, optimizedPath } = options;
  const base: InferenceSession.SessionOptions = {
    executionProviders: provider === "cpu" ? [{ name: "cpu", useArena: !isMemoryTight }] : [provider, "cpu"],
    intraOpNumThreads: threads,
    interOpNumThreads: 1,
    executionMode: "sequential",
    logSeverityLevel: 4,
    // Threads that spin between two steps take the cores from whoever shares the machine.
    extra: { session: { intra_op: { allow_spinning: "0" } } },
  };
  const whole = { ...base, graphOptimizationLevel: "all" } as const;
  if (optimizedPath === undefined) return InferenceSession.create(path, whole);
  const kept = `${optimizedPath}-${env.versions.node ?? env.versions.common}.onnx`;
  // What was optimised for this machine needs no second pass; what is broken is made anew.
  if (existsSync(kept))
    try {
      return await InferenceSession.create(kept, { ...base, graphOptimizationLevel: "disabled" });
    } catch {
      rmSync(kept, { force: true });
    }
  const partial = `${kept}.${process.pid}.tmp`;
  try {
    const session = await InferenceSession.create(path, { ...whole, optimizedModelFilePath: partial });
    keepOptimized(partial, kept);
    return session;
  } catch {
    // A full disk, or a graph too large for one file, is no reason not to serve: whatever else it is, this tells.
    rmSync(partial, { force: true });
    return InferenceSession.create(path, whole);
  }
}

function keepOptimized(partial: string, path: string): void {
  try {
    renameSync(partial, path);
  } catch {
    // A cache that cannot be kept costs the next start a moment.
    rmSync(partial, { force: true });
  }
}

async function run({ id, session, feeds, outputs, keep }: Extract<Question, { kind: "run" }>): Promise<void> {
  const graph = sessions.get(session);
  if (!graph) throw new Error("there is no such session");
  const given: Record<string, Tensor> = {};
  for (const [name, value] of Object.entries(feeds)) given[name] = "ref" in value ? kept(value) : tensorOf(value);
  const found = outputs.length === 0 ? await graph.run(given) : await graph.run(given, outputs);
  const answer: { outputs: Record<string, TensorValue>; kept: Record<string, TensorRef> } = { outputs: {}, kept: {} };
  const buffers = new Set<ArrayBuffer>();
  for (const [name, tensor] of Object.entries(found)) {
    if (keep.includes(name)) answer.kept[name] = hold(tensor);
    else {
      const data = tensor.data as TensorValue["data"];
      answer.outputs[name] = { type: tensor.type, data, dims: tensor.dims };
      // An output that is an input passed through belongs to whoever holds it.
      if (data.buffer instanceof ArrayBuffer && !isHeld(data.buffer)) buffers.add(data.buffer);
    }
  }
  port?.postMessage({ id, ...answer } satisfies Answer, [...buffers]);
}

function tensorOf({ type, data, dims }: TensorValue): Tensor {
  return new OrtTensor(type as "float32", data as Float32Array, dims) as TypedTensor<"float32">;
}

function kept({ ref }: TensorRef): Tensor {
  const tensor = held.get(ref);
  if (!tensor) throw new Error("a tensor was used after its release");
  return tensor;
}

function hold(tensor: Tensor): TensorRef {
  lastRef += 1;
  held.set(lastRef, tensor);
  return { ref: lastRef, type: tensor.type, dims: tensor.dims };
}

function free(ref: number): void {
  held.get(ref)?.dispose();
  held.delete(ref);
}

function isHeld(buffer: ArrayBuffer): boolean {
  for (const tensor of held.values()) if ((tensor.data as TensorValue["data"]).buffer === buffer) return true;
  return false;
}

function ioInfo(metadata: InferenceSession.ValueMetadata): IoInfo {
  if (!metadata.isTensor) return { name: metadata.name, type: "not a tensor", shape: [] };
  return { name: metadata.name, type: metadata.type, shape: metadata.shape };
}

function send(message: Answer): void {
  port?.postMessage(message);
}
