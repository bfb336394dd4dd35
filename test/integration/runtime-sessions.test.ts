// The thread that holds the graphs, with the real library and tiny graphs.
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { readModelFolder } from "../../runtime/onnx/model-folder.ts";
import { type GraphOptions, Graphs } from "../../runtime/onnx/open-graph.ts";
import { type Graph, onnxFile } from "../fakes/onnx-file.ts";

const root = mkdtempSync(join(tmpdir(), "stoker-sessions-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

/** y = x + w, and the state of the next step: state + 1. */
const graph: Graph = {
  inputs: [
    { name: "x", type: "float32", shape: ["n"] },
    { name: "state", type: "float32", shape: [1] },
  ],
  outputs: [
    { name: "y", type: "float32", shape: ["n"] },
    { name: "next", type: "float32", shape: [1] },
  ],
  nodes: [
    { op: "Add", inputs: ["x", "state"], outputs: ["y"] },
    { op: "Add", inputs: ["state", "one"], outputs: ["next"] },
  ],
  weights: [{ name: "one", dims: [1], data: Float32Array.of(1) }],
};
writeFileSync(join(root, "model.onnx"), onnxFile(graph));

const f32 = (...values: number[]) => ({ type: "float32", data: Float32Array.from(values), dims: [values.length] });

async function withGraphs<T>(more: Partial<GraphOptions>, use: (graphs: Graphs) => Promise<T>): Promise<T> {
  const options = { threads: 1, memoryBytes: 0, provider: "auto", hasGpu: false, graphCacheDir: undefined } as const;
  const graphs = new Graphs({ ...options, ...more });
  try {
    return await use(graphs);
  } finally {
    await graphs.close();
  }
}

describe("sessions of graphs", () => {
  it("run off this thread, several at once asked, each with its own answer", () =>
    withGraphs({}, async (graphs) => {
      const session = await graphs.open(await readModelFolder(root), "model.onnx");
      const runs = [1, 2, 3].map((x) => session.run({ x: f32(x, x), state: f32(10) }, ["y"]));
      expect((await Promise.all(runs)).map(({ y }) => [...(y?.data ?? [])])).toEqual([
        [11, 11],
        [12, 12],
        [13, 13],
      ]);
    }));

  it("keep a state where it is from step to step, until it is released", () =>
    withGraphs({}, async (graphs) => {
      const session = await graphs.open(await readModelFolder(root), "model.onnx");
      let { given, kept } = await session.runKept({ x: f32(1), state: f32(0) }, (name) => name === "next");
      expect(Object.keys(given)).toEqual(["y"]);
      for (let step = 1; step <= 3; step++) {
        const next = kept["next"];
        if (!next) throw new Error("nothing was kept");
        const after = await session.runKept({ x: f32(1), state: next }, (name) => name === "next");
        session.release([next]);
        expect([...(after.given["y"]?.data ?? [])]).toEqual([1 + step]);
        await expect(session.run({ x: f32(1), state: next })).rejects.toThrow("after its release");
        ({ given, kept } = after);
      }
    }));

  it("say what a wrong input is, and go on", () =>
    withGraphs({}, async (graphs) => {
      const session = await graphs.open(await readModelFolder(root), "model.onnx");
      await expect(session.run({ x: f32(1) })).rejects.toThrow(/state/);
      expect([...((await session.run({ x: f32(1), state: f32(1) }))["y"]?.data ?? [])]).toEqual([2]);
    }));

  it("fall back to the processor where the GPU's library is missing, and say so", () =>
    withGraphs({ hasGpu: true }, async (graphs) => {
      const session = await graphs.open(await readModelFolder(root), "model.onnx");
      if (session.provider === "cuda") {
        process.stderr.write("\nNOT PROVEN: the fallback to the processor: this machine has CUDA\n");
        return;
      }
      expect(graphs.warnings).toHaveLength(1);
      expect(graphs.warnings[0]).toMatch(/runs on cpu and not on cuda/);
      expect(graphs.provider).toBe("cpu");
    }));

  it("keep the graph as it was optimised, and open it the next time", async () => {
    const graphCacheDir = join(root, "cache");
    const open = () =>
      withGraphs({ graphCacheDir }, async (graphs) => {
        const session = await graphs.open(await readModelFolder(root), "model.onnx");
        return [...((await session.run({ x: f32(1), state: f32(1) }))["y"]?.data ?? [])];
      });
    expect(await open()).toEqual([2]);
    const kept = readdirSync(graphCacheDir);
    expect(kept).toHaveLength(1);
    expect(await open()).toEqual([2]);
    expect(readdirSync(graphCacheDir)).toEqual(kept);
    // What broke meanwhile is made anew.
    const file = join(graphCacheDir, kept[0] as string);
    const whole = readFileSync(file);
    writeFileSync(file, whole.subarray(0, 20));
    expect(await open()).toEqual([2]);
    expect(readFileSync(file).length).toBe(whole.length);
  });

  it("name a graph that the library cannot load", async () => {
    const folder = mkdtempSync(join(root, "broken-"));
    const node = { op: "NoSuchOperator", inputs: ["x"], outputs: ["y"] };
    writeFileSync(
      join(folder, "model.onnx"),
      onnxFile({ ...graph, nodes: [node], outputs: graph.outputs?.slice(0, 1) ?? [] }),
    );
    await withGraphs({}, async (graphs) => {
      await expect(graphs.open(await readModelFolder(folder), "model.onnx")).rejects.toThrow(/^unsupported operators:/);
    });
  });
});
