import { describe, expect, it } from "vitest";
import type { HostFacts } from "../../../../agent/engines/host-facts.ts";
import { planInstance } from "../../../../agent/engines/plan-instance.ts";
import { instanceSpec } from "../../../fakes/instance-spec.ts";

const key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl ada@laptop";
const host: HostFacts = {
  driver: "process",
  runtimeImage: "",
  allowedImages: [],
  filesDir: "/tmp/files",
  logLevel: "info",
  rentals: { images: new Map([["torch", "registry.example/torch@sha256:1"]]), devices: "nvidia" },
};
const spec = (over: object = {}, rental: object = {}) =>
  instanceSpec({
    engine: "container",
    image: "torch",
    gpuUuids: ["GPU-1", "GPU-2"],
    memoryBytes: String(8 * 1024 ** 3),
    rental: { sshKeys: [key], firstStart: "#!/bin/sh", ...rental },
    ...over,
  });
const plan = (over: object = {}, rental: object = {}, facts: HostFacts = host) =>
  planInstance(spec(over, rental), undefined, facts);

describe("a rental's plan", () => {
  it("has the image that the host's own list names, whole GPUs, and nothing of ours", () => {
    expect(plan()).toMatchObject({
      ok: true,
      files: [],
      plan: {
        kind: "rental",
        image: "registry.example/torch@sha256:1",
        env: {},
        mounts: [],
        gpuUuids: ["GPU-1", "GPU-2"],
        shmBytes: 4 * 1024 ** 3,
        rental: { sshKeys: [key], firstStart: "#!/bin/sh" },
      },
    });
  });

  it("passes no device if the host is set to none", () => {
    const facts: HostFacts = { ...host, rentals: { images: new Map([["torch", "torch"]]), devices: "none" } };
    expect(plan({}, {}, facts)).toMatchObject({ ok: true, plan: { gpuUuids: [] } });
  });

  it.each([
    [
      "an image that is not listed, also by its reference",
      { image: "registry.example/torch@sha256:1" },
      {},
      "image_refused",
    ],
    ["an image of a list that a property name would find", { image: "constructor" }, {}, "image_refused"],
    ["a slice of a GPU", { gpuUuids: ["MIG-1"] }, {}, "bad_spec"],
    ["a key with a command before it", {}, { sshKeys: [`command="rm -rf /" ${key}`] }, "bad_spec"],
    ["a key of two lines", {}, { sshKeys: [`${key}\n${key}`] }, "bad_spec"],
    ["no word about the rental", { rental: null }, {}, "bad_spec"],
  ])("refuses %s", (_what, over, rental, code) => {
    expect(plan(over, rental)).toMatchObject({ ok: false, code });
  });

  it("is refused by a host that rents out nothing", () => {
    const { rentals: _, ...models } = host;
    expect(plan({}, {}, models)).toMatchObject({ ok: false, code: "bad_spec" });
  });
});
