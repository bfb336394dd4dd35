import { expect, it } from "vitest";
import { readConfig } from "../../../agent/config.ts";

const needed = { STOKER_AGENT_DATA: "/var/lib/stoker-agent", STOKER_CONTROL: "10.0.0.1:9090" };

it("bounds what bodies of requests may take of the host's memory, never below what one of them needs", () => {
  const mib = 1024 * 1024;
  expect(readConfig(needed).bodyMemoryBytes).toBe(512 * mib);
  expect(readConfig({ ...needed, STOKER_AGENT_BODY_MEMORY_MIB: "64" }).bodyMemoryBytes).toBe(64 * mib);
  expect(() => readConfig({ ...needed, STOKER_AGENT_BODY_MEMORY_MIB: "20" })).toThrow(
    "STOKER_AGENT_BODY_MEMORY_MIB must be a whole number from 64",
  );
});

it("keeps mail's ports out of the reach of rented containers unless its operator opens them", () => {
  const ports = (text?: string) =>
    readConfig({ ...needed, ...(text === undefined ? {} : { STOKER_RENTAL_DENY_PORTS: text }) }).rentals.deniedPorts;
  expect(ports()).toEqual([25, 465, 587]);
  expect(ports("25, 6667")).toEqual([25, 6667]);
  expect(ports("none")).toEqual([]);
  for (const wrong of ["0", "70000", "smtp", "25 none"])
    expect(() => ports(wrong)).toThrow("STOKER_RENTAL_DENY_PORTS must be TCP ports such as 25 465 587, or none");
});

it("needs a node and a namespace to run model servers as Pods, and refuses what Pods cannot have", () => {
  const cluster = { ...needed, STOKER_DRIVER: "kubernetes" };
  const whole = { ...cluster, STOKER_KUBERNETES_NAMESPACE: "models", STOKER_NODE_NAME: "node-1" };
  const read = (over: Readonly<Record<string, string>> = {}) => readConfig({ ...whole, ...over }).kubernetes;
  expect(read()).toMatchObject({ namespace: "models", node: "node-1", pod: {}, data: undefined });
  expect(read().gpus).toMatchObject({ kind: "resource", names: { nvidia: "nvidia.com/gpu" } });
  expect(read({ STOKER_KUBERNETES_GPUS: "claim" }).gpus).toEqual({ kind: "claim", deviceClass: "gpu.nvidia.com" });
  expect(read({ STOKER_KUBERNETES_DATA_CLAIM: "weights/nodes/node-1" }).data).toEqual({
    folder: needed.STOKER_AGENT_DATA,
    claim: "weights",
    subPath: "nodes/node-1",
  });
  expect(() => readConfig(cluster)).toThrow(/STOKER_KUBERNETES_NAMESPACE is required.*STOKER_NODE_NAME is required/);
  for (const [name, value] of [
    ["STOKER_RENTAL_IMAGES", "ubuntu"],
    ["STOKER_CONTAINER_FIREWALL", "required"],
    ["STOKER_KUBERNETES_GPU_RESOURCES", "nvidia.com/gpu"],
    ["STOKER_KUBERNETES_POD", '{"hostNetwork":true}'],
    ["STOKER_KUBERNETES_POD", '{"labels":{"a":1}}'],
    ["STOKER_KUBERNETES_POD", "[]"],
  ] as const)
    expect(() => read({ [name]: value }), value).toThrow(name);
});
