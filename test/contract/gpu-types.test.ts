// An operator's GPU types in the checks of requests.
import { afterAll, beforeAll, expect, it } from "vitest";
import { addGpuTypes } from "../../proto/gpu.ts";
import { type Edge, startEdge } from "../fakes/edge.ts";

let edge: Edge;
let removeTypes: () => void;

beforeAll(async () => {
  removeTypes = addGpuTypes([{ name: "Frontier-500GB", vendor: "amd", memory_gb: 500, marks: ["Frontier"] }]);
  edge = await startEdge({ agents: 0 });
});
afterAll(async () => {
  await edge?.close();
  // Files of one worker share the module.
  removeTypes();
});

it.each(["Frontier-500GB", "MI300X-192GB", "H100-80GB", "other"])("accepts %s in a request", async (gpu) => {
  const reply = await edge.post("/v1/me/gpu_limit/request", { gpu_type: gpu, requested_limit: 2, reason: "launch" });
  expect(reply.status, await reply.text()).toBe(200);
});

it("refuses a type that the catalogue does not have", async () => {
  const body = { gpu_type: "Frontier-400GB", requested_limit: 2, reason: "launch" };
  const reply = await edge.post("/v1/me/gpu_limit/request", body);
  expect(reply.status).toBe(422);
  expect(await reply.json()).toMatchObject({ detail: [{ loc: ["body", "gpu_type"], type: "enum" }] });
});
