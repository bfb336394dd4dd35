import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { checkGraph } from "../../../../runtime/onnx/check-graph.ts";
import { type Graph, type Node, onnxFile, seededWeights } from "../../../fakes/onnx-file.ts";

const root = mkdtempSync(join(tmpdir(), "stoker-graph-"));
const folder = join(root, "model");
mkdirSync(folder);
writeFileSync(join(root, "outside.bin"), "secret");
writeFileSync(join(folder, "beside.data"), Buffer.alloc(16));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const add: Node = { op: "Add", inputs: ["x", "w"], outputs: ["y"] };
const graphOf = (external?: string, node: Node = add): Graph => ({
  inputs: [{ name: "x", type: "float32", shape: ["n"] }],
  outputs: [{ name: "y", type: "float32", shape: ["n"] }],
  nodes: [node],
  weights: [{ name: "w", dims: [4], data: seededWeights(1, 4), ...(external === undefined ? {} : { external }) }],
});
const check = (bytes: Uint8Array) => {
  const path = join(folder, "model.onnx");
  writeFileSync(path, bytes);
  return checkGraph(path, folder);
};

describe("a graph file, before the library reads it", () => {
  it("passes with weights of its own, and with weights beside it", async () => {
    await expect(check(onnxFile(graphOf()))).resolves.toEqual({ hasAllWeights: true });
    await expect(check(onnxFile(graphOf("beside.data")))).resolves.toEqual({ hasAllWeights: false });
  });

  it.each(["../outside.bin", "/etc/hostname", "..\\outside.bin", "sub/../../outside.bin"])(
    "is refused when it keeps weights in %s",
    async (external) => {
      await expect(check(onnxFile(graphOf(external)))).rejects.toThrow(/^weights outside the model's folder:/);
    },
  );

  it("is refused when the weights it names are not there", async () => {
    await expect(check(onnxFile(graphOf("gone.data")))).rejects.toThrow(/^weights missing:/);
  });

  it("is refused when it needs operators of a custom library", async () => {
    const node = { ...add, domain: "com.example.ops" };
    await expect(check(onnxFile(graphOf(undefined, node)))).rejects.toThrow(/^custom operators:.*com\.example\.ops/);
  });

  it("is refused when it is text, empty, or cut", async () => {
    for (const bytes of [Buffer.from("this is no model"), Buffer.alloc(0), onnxFile(graphOf()).subarray(0, -3)])
      await expect(check(bytes)).rejects.toThrow(/^not an ONNX file:/);
  });
});
