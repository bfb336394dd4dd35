import { expect, it } from "vitest";
import { createHostOperations } from "../../../../control-plane/fleet/host-operations.ts";
import type { HostOperationStore } from "../../../../control-plane/fleet/store.ts";
import { hostView } from "../../../fakes/fleet-records.ts";

const act = { by: "u:operator", ip: "127.0.0.1", note: "" };

function world() {
  const done: string[] = [];
  const store: Pick<HostOperationStore, "begin" | "end" | "left" | "remove" | "endUnknown"> = {
    async begin({ host }) {
      done.push(`begin ${host}`);
      return "begun";
    },
    end: async (host) => done.push(`end ${host}`) > 0,
    left: async () => ({ all: 2, fixed: 0 }),
    async remove(host) {
      done.push(`remove ${host}`);
      return "removed";
    },
    endUnknown: async () => [],
  };
  const operations = createHostOperations({
    store: store as HostOperationStore,
    snapshot: async () => [
      hostView("h1", { hostname: "gpu-box", state: "lost" }),
      hostView("h2", { hostname: "gpu-box", state: "lost" }),
      hostView("h3", { hostname: "other-box" }),
    ],
    live: async () => new Map(),
    inFlight: () => 0,
    formats: () => [],
    uncordonGpus: async () => false,
  });
  return { operations, done };
}

it("a name shared by two hosts drains neither, and the error lists both", async () => {
  const { operations, done } = world();
  for (const operate of [
    () => operations.cordon("gpu-box", act),
    () => operations.drain("gpu-box", 1_000, act),
    () => operations.end("gpu-box", act),
    () => operations.remove("gpu-box", act),
    () => operations.endUnknown("gpu-box", undefined, act),
  ])
    await expect(operate()).rejects.toThrow(/2 hosts are named gpu-box.*h1, h2/);
  expect(done).toEqual([]);
  expect(await operations.cordon("h2", act)).toBe("h2");
  expect(await operations.drain("other-box", 1_000, act)).toBe("h3");
});

it("progress names the host by id, however it was requested", async () => {
  const { operations } = world();
  expect(await operations.progress("other-box")).toMatchObject({ host: "h3", left: 2 });
});
