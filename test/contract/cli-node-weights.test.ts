// The CLI's words about weights on a host against the real edge.
import { afterAll, beforeAll, expect, it } from "vitest";
import { type Edge, startEdge } from "../fakes/edge.ts";
import { adminKey } from "../fakes/ports.ts";
import { runCli } from "./cli-run.ts";

let edge: Edge;
beforeAll(async () => {
  edge = await startEdge();
});
afterAll(() => edge?.close());

const stoker = (...args: string[]) => runCli(edge, adminKey, ["node", ...args]);

it("refuses what the host's agent would refuse, each in a sentence that names the field", async () => {
  for (const [args, field] of [
    [["a/.."], "repo"],
    [["acme/tiny", "--revision", "refs/../x"], "revision"],
    [["acme/tiny", "--file", "a/../b.gguf"], "file"],
    [["acme/tiny", "--file", "/etc/passwd"], "file"],
    [["acme/tiny", "--format", "exe"], "format: Input should be 'gguf', 'safetensors', 'onnx' or 'lora'"],
  ] as const) {
    const { code, err } = await stoker("prefetch", "node-1", ...args);
    expect(code, args.join(" ")).not.toBe(0);
    expect(err).toContain(field);
  }
}, 60_000);

it("prefetches weights, shows their progress and drops them", async () => {
  const requests: unknown[] = [];
  const { ask } = edge.deps.nodeWeights;
  edge.deps.nodeWeights.ask = (host, request, who) => {
    requests.push({ host, ...request });
    return ask(host, request, who);
  };
  const asked = await stoker(
    "prefetch",
    "node-1",
    "acme/tiny",
    "--format",
    "onnx",
    "--file",
    "onnx/model.onnx",
    "--pin",
  );
  expect(asked).toMatchObject({ out: "prefetch1\n", code: 0 });
  expect(requests).toEqual([
    { host: "node-1", repo: "acme/tiny", revision: "main", file: "onnx/model.onnx", format: "onnx", isPinned: true },
  ]);
  expect((await stoker("weights", "node-1")).out).toMatch(/prefetch1 +acme\/tiny +main +ready +100 % +yes/);
  expect(await stoker("unfetch", "node-1", "prefetch1")).toMatchObject({ out: "", code: 0 });
  const unknown = await stoker("weights", "none");
  expect(unknown.code).not.toBe(0);
  expect(unknown.err).toContain("Host none not found");
});
