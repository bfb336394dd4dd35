import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pino from "pino";
import { afterAll, afterEach, describe, expect, it } from "vitest";
import { KubernetesDriver } from "../../../../agent/kubernetes/kubernetes-driver.ts";
import { annotationsOf, labelsOf, podNameOf } from "../../../../agent/kubernetes/pod-labels.ts";
import { sealingPatch } from "../../../../agent/kubernetes/pod-seal.ts";
import type { ContainerPlan } from "../../../../agent/reconcile/driver.ts";
import { openTextSeals } from "../../../../agent/state/text-seal.ts";
import type { DeploymentId, InstanceId } from "../../../../proto/ids.ts";

const hostId = "host-1";
const plan: ContainerPlan = {
  instanceId: "i1" as InstanceId,
  deployId: "d1" as DeploymentId,
  generation: 1,
  kind: "runtime",
  image: "",
  args: [],
  env: {},
  mounts: [],
  port: 8000,
  memoryBytes: 0,
  cpus: 0,
  gpuUuids: ["GPU-a"],
  shmBytes: 0,
};
const name = podNameOf(plan.instanceId);
const seals = mkdtempSync(join(tmpdir(), "stoker-seal-"));
afterAll(() => rmSync(seals, { recursive: true }));
const sealFor = openTextSeals(join(seals, "key"), pino({ level: "silent" }));
const seal = sealFor("pod");
const createdPod = {
  metadata: { name, uid: "pod-1", labels: labelsOf(hostId, plan.instanceId), annotations: annotationsOf(plan) },
  spec: { containers: [{ name: "server", image: "r/i:1" }] },
  status: { phase: "Pending" },
};
const withSeal = (pod: typeof createdPod, by = seal) => {
  const value = sealingPatch(by, pod)[1]?.value;
  return { ...pod, metadata: { ...pod.metadata, annotations: { ...pod.metadata.annotations, "stoker.seal": value } } };
};
const ourPod = withSeal(createdPod);

/** An API server that replies from `answers` ("METHOD KIND"), and otherwise that there is no such object. */
async function openOn(answers: Record<string, readonly [number, object]>) {
  const asked: string[] = [];
  const server = createServer((req, res) => {
    const [, kind = ""] = /\/namespaces\/n\/([a-z]+)/.exec(req.url ?? "") ?? [];
    const what = `${req.method} ${kind}`;
    asked.push(what);
    req.resume().once("end", () => {
      const [status, body] = answers[what] ?? (req.method === "GET" ? [404, { message: "not found" }] : [201, {}]);
      res.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const folder = mkdtempSync(join(tmpdir(), "stoker-cluster-"));
  const kubeconfig = join(folder, "kubeconfig");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  writeFileSync(
    kubeconfig,
    JSON.stringify({
      "current-context": "test",
      clusters: [{ name: "test", cluster: { server: url, "insecure-skip-tls-verify": true } }],
      users: [{ name: "admin", user: { token: "t" } }],
      contexts: [{ name: "test", context: { cluster: "test", user: "admin" } }],
    }),
  );
  const driver = new KubernetesDriver({
    kubeconfig,
    namespace: "n",
    hostId,
    node: "node-1",
    runtimeImage: "r/i:1",
    pod: {},
    gpus: { kind: "claim", deviceClass: "gpu.nvidia.com" },
    seal,
    log: pino({ level: "silent" }),
  });
  const close = async () => {
    await driver.close();
    server.closeAllConnections();
    server.close();
    rmSync(folder, { recursive: true });
  };
  return { driver, close, asked };
}

describe("the start of a Pod", () => {
  let end: (() => Promise<void>) | undefined;
  afterEach(() => end?.());
  const start = async (answers: Record<string, readonly [number, object]>) => {
    const { driver, close, asked } = await openOn(answers);
    end = close;
    const outcome = await driver.start(plan, AbortSignal.timeout(30_000)).catch((error: unknown) => error);
    return { outcome, changes: asked.filter((what) => /pods|resourceclaims/.test(what) && !what.startsWith("GET")) };
  };

  it("creates the claim, then the Pod, which it seals, and gives it the claim", async () => {
    const { outcome, changes } = await start({ "POST pods": [201, createdPod] });
    expect(outcome).toBeUndefined();
    expect(changes).toEqual(["POST resourceclaims", "POST pods", "PATCH pods", "PATCH resourceclaims"]);
  });

  it.each([
    ["has no seal", createdPod],
    ["has the seal of another Pod", { ...ourPod, metadata: { ...ourPod.metadata, uid: "pod-2" } }],
    ["has another image than was sealed", { ...ourPod, spec: { containers: [{ name: "server", image: "r/evil:1" }] } }],
    [
      "has another container besides",
      { ...ourPod, spec: { containers: [...ourPod.spec.containers, { name: "x", image: "y" }] } },
    ],
    [
      "was sealed with another key",
      withSeal(createdPod, openTextSeals(join(seals, "other"), pino({ level: "silent" }))("pod")),
    ],
    ["was sealed with our key for another purpose", withSeal(createdPod, sealFor("desired state"))],
  ])("deletes a Pod of its name and labels that %s", async (_, pod) => {
    const { outcome, changes } = await start({
      "GET pods": [200, pod],
      // So that the start ends here instead of waiting for its end.
      "DELETE pods": [403, { message: "no" }],
    });
    expect(outcome).toBeInstanceOf(Error);
    expect(changes).toEqual(["DELETE pods"]);
  });

  it("gives the claim also to the Pod that an interrupted start created and sealed", async () => {
    const { outcome, changes } = await start({ "GET pods": [200, ourPod] });
    expect(outcome).toBeUndefined();
    expect(changes).toEqual(["PATCH resourceclaims"]);
  });

  it("fails, to be retried, where the cluster reports a conflict and there is no Pod", async () => {
    const { outcome } = await start({ "POST pods": [409, { message: "quota was modified" }] });
    expect(outcome).toMatchObject({ code: "start_failed", retryable: true });
  });

  it("takes back the claim of a Pod that was refused", async () => {
    const claim = { metadata: { name, uid: "claim-1", labels: labelsOf(hostId, plan.instanceId) } };
    const { outcome, changes } = await start({
      "GET resourceclaims": [200, claim],
      "POST pods": [403, { message: "exceeded quota: few" }],
    });
    expect(outcome).toMatchObject({ code: "quota_exceeded" });
    expect(changes).toEqual(["DELETE resourceclaims", "POST resourceclaims", "POST pods", "DELETE resourceclaims"]);
  });

  it("leaves alone a claim of another agent", async () => {
    const claim = { metadata: { name, uid: "claim-1", labels: labelsOf("host-2", plan.instanceId) } };
    const { outcome, changes } = await start({
      "GET resourceclaims": [200, claim],
      "POST resourceclaims": [409, { message: "already exists" }],
    });
    expect(outcome).toMatchObject({ code: "start_failed", retryable: true });
    expect(changes).toEqual(["POST resourceclaims"]);
  });
});
