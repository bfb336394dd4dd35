// Agents and their driver in a cluster: a real API server with its etcd, the real scheduler and controllers, and the rights of the chart's
// role. The kubelet is played (test/fakes/kubelet.ts).
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import type { V1Pod } from "@kubernetes/client-node";
import pino from "pino";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { wordsOf } from "../../../agent/kubernetes/api-fault.ts";
import { KubernetesDriver, type KubernetesDriverOptions } from "../../../agent/kubernetes/kubernetes-driver.ts";
import { podNameOf } from "../../../agent/kubernetes/pod-labels.ts";
import type { ContainerPlan, Observed } from "../../../agent/reconcile/driver.ts";
import { openTextSeals } from "../../../agent/state/text-seal.ts";
import { type DeploymentId, type InstanceId, randomId } from "../../../proto/ids.ts";
import { type Kubelet, startKubelet } from "../../fakes/kubelet.ts";
import { hasKubernetes, type Kubernetes, kubernetesFolder, startKubernetes } from "../../fakes/kubernetes.ts";
import { makeLocalAgent } from "../../fakes/local-agent.ts";

const run = promisify(execFile);
const root = join(import.meta.dirname, "../../..");
const programs = ["etcd", "kube-apiserver", "kube-scheduler", "kube-controller-manager", "kubectl", "helm"];
const signal = (ms = 90_000) => AbortSignal.timeout(ms);
const patient = { timeout: 60_000, interval: 200 };
const image = "registry.example.com/tiny:1";
const gpuOf = (name: string) => `GPU-${name}`;

// Kubernetes itself takes most of the time.
const limits = { timeout: 300_000 };

describe.runIf(hasKubernetes("that agents run model servers as Pods", programs))(
  "model servers as Pods",
  limits,
  () => {
    let kubernetes: Kubernetes;
    let kubelet: Kubelet;
    /** With the token of the chart's service account, and nothing else. */
    let kubeconfig: string;
    let folder: string;
    const drivers: KubernetesDriver[] = [];

    const kubectl = (...args: string[]) => kubernetes.kubectl(args);
    const apply = (...objects: object[]) =>
      kubernetes.kubectl(
        ["apply", "--server-side", "--filename", "-"],
        objects.map((object) => JSON.stringify(object)).join("\n---\n"),
      );
    const open = (over: Partial<KubernetesDriverOptions> = {}) => {
      const driver = new KubernetesDriver({
        kubeconfig,
        namespace: "stoker",
        hostId: randomId(16),
        node: "node-1",
        runtimeImage: image,
        pod: {},
        gpus: { kind: "resource", names: { nvidia: "nvidia.com/gpu" } },
        seal: openTextSeals(join(folder, "key"), pino({ level: "silent" }))("pod"),
        log: pino({ level: "silent" }),
        ...over,
      });
      drivers.push(driver);
      return driver;
    };
    const planOf = (over: Partial<ContainerPlan> = {}): ContainerPlan => ({
      instanceId: randomId<"instance">(16) as InstanceId,
      deployId: "deployment" as DeploymentId,
      generation: 1,
      kind: "runtime",
      image: "",
      args: [],
      env: { STOKER_SERVED_MODEL_NAME: "tiny/model" },
      mounts: [],
      port: 8000,
      memoryBytes: 0,
      cpus: 0.1,
      gpuUuids: [],
      shmBytes: 0,
      ...over,
    });
    const find = async (driver: KubernetesDriver, { instanceId }: ContainerPlan) =>
      (await driver.list(signal())).find((one) => one.instanceId === instanceId);
    const until = <State extends Observed["state"]>(driver: KubernetesDriver, plan: ContainerPlan, state: State) =>
      vi.waitFor(async () => {
        const seen = await find(driver, plan);
        expect(seen?.state).toBe(state);
        return seen as Extract<Observed, { state: State }>;
      }, patient);
    const waits = (driver: KubernetesDriver, plan: ContainerPlan, text: string | RegExp) =>
      vi.waitFor(async () => {
        const seen = await find(driver, plan);
        expect(seen?.state === "starting" ? seen.waitingFor : seen?.state).toMatch(text);
      }, patient);

    beforeAll(async () => {
      folder = mkdtempSync(join(tmpdir(), "stoker-pods-"));
      kubernetes = await startKubernetes();
      kubernetes.startControllers();
      await kubectl("create", "namespace", "stoker");
      const values = ["--values", join(root, "test/fixtures/helm/pods.yaml"), "--namespace", "stoker"];
      const chart = ["template", "stoker", join(root, "deploy/helm/stoker"), ...values, "--kube-version", "1.34.0"];
      const { stdout } = await run(join(kubernetesFolder, "helm"), chart);
      const rights = stdout.split("\n---\n").filter((text) => /^kind: (ServiceAccount|Role|RoleBinding)$/m.test(text));
      expect(rights).toHaveLength(3);
      await kubernetes.kubectl(["apply", "--namespace", "stoker", "--filename", "-"], rights.join("\n---\n"));
      const token = (await kubectl("create", "token", "stoker-agent", "--namespace", "stoker")).trim();
      kubeconfig = `${kubernetes.kubeconfig}.agent`;
      const config = JSON.parse(readFileSync(kubernetes.kubeconfig, "utf8"));
      writeFileSync(kubeconfig, JSON.stringify({ ...config, users: [{ name: "admin", user: { token } }] }));
      kubelet = await startKubelet(kubernetes, "node-1", { "nvidia.com/gpu": "2" });
    });
    afterEach(async () => {
      kubelet.recover();
      for (const driver of drivers.splice(0)) await driver.close();
      await kubectl("delete", "pods", "--all", "--namespace", "stoker", "--timeout=60s");
    });
    afterAll(async () => {
      await kubelet?.stop();
      await kubernetes?.stop();
      if (folder) rmSync(folder, { recursive: true, force: true });
    });

    it("serve requests through an agent, are adopted by the next agent after a kill, and are removed with their instance", async () => {
      const agent = makeLocalAgent();
      const env = {
        STOKER_DRIVER: "kubernetes",
        STOKER_KUBERNETES_CONFIG: kubeconfig,
        STOKER_KUBERNETES_NAMESPACE: "stoker",
        STOKER_NODE_NAME: "node-1",
        STOKER_RUNTIME_IMAGE: image,
      };
      try {
        const spec = agent.spec();
        const id = spec.instanceId as InstanceId;
        agent.want([spec]);
        agent.start(env);
        const answer = () =>
          vi.waitFor(async () => {
            const found = await agent.complete(id);
            expect(found?.status, agent.log().slice(-2000)).toBe(200);
            return found?.body.pid;
          }, patient);
        const pid = await answer();
        expect(pid).toBe(kubelet.pidOf(podNameOf(id)));
        await agent.kill("SIGKILL");
        agent.start(env);
        expect(await answer()).toBe(pid);
        await agent.kill("SIGTERM");
        agent.want([], [id]);
        agent.start(env);
        await vi.waitFor(
          async () => expect(await kubectl("get", "pods", "-n", "stoker", "-o", "name")).toBe(""),
          patient,
        );
      } finally {
        await agent.clean();
      }
    });

    it("report why the scheduler does not place them", async () => {
      const driver = open();
      const [big, first, second, third] = [
        planOf({ cpus: 1000 }),
        ...["a", "b", "c"].map((name) => planOf({ gpuUuids: [gpuOf(name)] })),
      ] as [ContainerPlan, ContainerPlan, ContainerPlan, ContainerPlan];
      for (const plan of [big, first, second]) await driver.start(plan, signal());
      await waits(driver, big, /scheduler has not placed it \(Unschedulable\): .*Insufficient cpu/);
      for (const plan of [first, second]) await until(driver, plan, "running");
      await driver.start(third, signal());
      await waits(driver, third, /Insufficient nvidia.com\/gpu/);
      await driver.stop(first.instanceId, 0, signal());
      await until(driver, third, "running");
    });

    it("report an image that their node cannot pull, and are removed all the same", async () => {
      const driver = open();
      const plan = planOf({ image: "registry.example.com/missing:1" });
      await driver.start(plan, signal());
      await waits(
        driver,
        plan,
        /cannot pull the image registry.example.com\/missing:1 \((ErrImagePull|ImagePullBackOff)\): .*the registry has no/,
      );
      await driver.remove(plan.instanceId, signal());
      expect(await find(driver, plan)).toBeUndefined();
    });

    it("start once the quota of the namespace allows it", async () => {
      const quota = (pods: string) => ({
        apiVersion: "v1",
        kind: "ResourceQuota",
        metadata: { name: "few", namespace: "stoker" },
        spec: { hard: { pods } },
      });
      await apply(quota("0"));
      const driver = open();
      const plan = planOf();
      await vi.waitFor(
        async () =>
          expect(await kubectl("get", "quota", "few", "-n", "stoker", "-o", "jsonpath={.status.hard.pods}")).toBe("0"),
        patient,
      );
      const refused = await driver.start(plan, signal()).catch((error: unknown) => error);
      expect(refused).toMatchObject({ code: "quota_exceeded", retryable: true });
      expect(wordsOf((refused as Error).cause)).toMatch(/exceeded quota: few/);
      await kubectl("delete", "quota", "few", "-n", "stoker");
      await vi.waitFor(() => driver.start(plan, signal()), patient);
      await until(driver, plan, "running");
    });

    it("get nothing new once the cluster evicts them, and are started again afterwards", async () => {
      const driver = open();
      const stubborn = join(folder, "stubborn.json");
      writeFileSync(stubborn, JSON.stringify({ ignoreTerm: true }));
      const plan = planOf({ env: { TINY_RUNTIME_SCRIPT: stubborn } });
      await driver.start(plan, signal());
      const before = await until(driver, plan, "running");
      const name = podNameOf(plan.instanceId);
      const eviction = { apiVersion: "policy/v1", kind: "Eviction", metadata: { name, namespace: "stoker" } };
      const path = `/api/v1/namespaces/stoker/pods/${name}/eviction`;
      await kubernetes.kubectl(["create", "--raw", path, "--filename", "-"], JSON.stringify(eviction));
      expect(await find(driver, plan)).toMatchObject({ state: "running", isLeaving: true, identity: before.identity });
      await vi.waitFor(async () => expect(await find(driver, plan)).toBeUndefined(), patient);
      await driver.start(plan, signal());
      expect((await until(driver, plan, "running")).identity).not.toBe(before.identity);
    });

    it("are started again after somebody else deleted them, and left alone once somebody took their labels away", async () => {
      const driver = open();
      const plan = planOf();
      await driver.start(plan, signal());
      await until(driver, plan, "running");
      const name = podNameOf(plan.instanceId);
      await kubectl("delete", "pod", name, "-n", "stoker", "--force", "--grace-period=0");
      expect(await find(driver, plan)).toBeUndefined();
      await driver.start(plan, signal());
      const again = await until(driver, plan, "running");
      await kubectl("label", "pod", name, "-n", "stoker", "stoker.node-");
      expect(await find(driver, plan)).toBeUndefined();
      await driver.remove(plan.instanceId, signal());
      await expect(driver.start(plan, signal())).rejects.toMatchObject({ code: "start_failed", retryable: true });
      expect(await kubectl("get", "pod", name, "-n", "stoker", "-o", "jsonpath={.metadata.uid}")).toBe(again.identity);
    });

    it("are replaced instead of used when a neighbour of the namespace made them like ours or changed their image", async () => {
      const hostId = randomId(16);
      const driver = open({ hostId });
      const plan = planOf();
      await driver.start(plan, signal());
      const before = await until(driver, plan, "running");
      const pod = async () =>
        JSON.parse(await kubectl("get", "pod", podNameOf(plan.instanceId), "-n", "stoker", "-o", "json")) as V1Pod;
      const copied = await pod();
      // Another agent of the host finds it, by the key of the host.
      await driver.close();
      const next = open({ hostId });
      expect(await find(next, plan)).toMatchObject({ state: "running", identity: before.identity });
      await kubectl("delete", "pod", podNameOf(plan.instanceId), "-n", "stoker", "--wait=true");
      const { name, labels, annotations } = copied.metadata ?? {};
      const server = { ...copied.spec?.containers[0], image: "registry.example.com/evil:1" };
      await apply({
        ...{ apiVersion: "v1", kind: "Pod", metadata: { name, namespace: "stoker", labels, annotations } },
        spec: { ...copied.spec, containers: [server] },
      });
      await vi.waitFor(async () => expect((await pod()).status?.phase).toBe("Running"), patient);
      const forged = (await pod()).metadata?.uid;
      const foreign = { state: "exited", endedBy: { code: "pod_not_ours" } };
      expect(await find(next, plan)).toMatchObject({ ...foreign, identity: forged });
      expect(await next.logs(plan.instanceId, { limit: 10 }, signal())).toEqual([]);
      await vi.waitFor(() => next.start(plan, signal()), patient);
      const own = await until(next, plan, "running");
      expect([before.identity, forged]).not.toContain(own.identity);
      const patch = '[{"op":"replace","path":"/spec/containers/0/image","value":"registry.example.com/evil:1"}]';
      await kubectl("patch", "pod", name ?? "", "-n", "stoker", "--type=json", "-p", patch);
      expect(await find(next, plan)).toMatchObject({ ...foreign, identity: own.identity });
      await next.remove(plan.instanceId, signal());
      expect(await find(next, plan)).toBeUndefined();
    });

    it("count as running while their node says nothing, and as gone once the node is removed from the cluster", {
      timeout: 300_000,
    }, async () => {
      const lost = await startKubelet(kubernetes, "node-lost");
      try {
        const driver = open({ node: "node-lost" });
        const plan = planOf();
        await driver.start(plan, signal());
        const { origin } = await until(driver, plan, "running");
        lost.lose();
        const condition = 'jsonpath={.status.conditions[?(@.type=="Ready")].status}';
        await vi.waitFor(
          async () => expect(await kubectl("get", "node", "node-lost", "-o", condition)).toBe("Unknown"),
          patient,
        );
        const refused = await driver.stop(plan.instanceId, 0, signal()).catch((error: unknown) => error);
        expect(refused).toMatchObject({ code: "engine_away", retryable: true });
        expect((refused as Error).message).toMatch(/node node-lost has not confirmed the end/);
        expect(await find(driver, plan)).toMatchObject({ state: "running" });
        expect((await fetch(`${origin}/health`, { signal: signal() })).status).toBe(200);
        // Nothing takes its place in the meantime, on whichever node.
        await expect(driver.start(plan, signal(5_000))).rejects.toThrow();
        await expect(open().start(plan, signal())).rejects.toMatchObject({ code: "start_failed", retryable: true });
        await kubectl("delete", "node", "node-lost");
        await vi.waitFor(async () => expect(await find(driver, plan)).toBeUndefined(), {
          timeout: 90_000,
          interval: 500,
        });
      } finally {
        await lost.stop();
      }
    });

    it("are changed by one of two agents with one name, and by the other one after the first has ended", async () => {
      const hostId = randomId(16);
      const [first, second] = [open({ hostId, holder: "first" }), open({ hostId, holder: "second" })];
      const plan = planOf();
      await vi.waitFor(() => first.start(plan, signal()), patient).catch(() => {});
      const [holder, other] = (
        await kubectl("get", "leases", "-n", "stoker", "-o", "jsonpath={.items[*].spec.holderIdentity}")
      )
        .split(" ")
        .includes("first")
        ? [first, second]
        : [second, first];
      await holder.start(plan, signal());
      await until(holder, plan, "running");
      for (const refused of [other.start(planOf(), signal()), other.remove(plan.instanceId, signal())])
        await expect(refused).rejects.toMatchObject({ code: "engine_away", retryable: true });
      expect(await find(other, plan)).toMatchObject({ state: "running" });
      await holder.close();
      await other.remove(plan.instanceId, signal());
      expect(await find(other, plan)).toBeUndefined();
    });

    it("have the very GPUs of their plan by a claim, which goes with their Pod", async () => {
      const driverName = "gpu.nvidia.com";
      await apply(
        {
          apiVersion: "resource.k8s.io/v1",
          kind: "DeviceClass",
          metadata: { name: driverName },
          spec: { selectors: [{ cel: { expression: `device.driver == "${driverName}"` } }] },
        },
        {
          apiVersion: "resource.k8s.io/v1",
          kind: "ResourceSlice",
          metadata: { name: "node-1-gpus" },
          spec: {
            driver: driverName,
            nodeName: "node-1",
            pool: { name: "node-1", generation: 1, resourceSliceCount: 1 },
            devices: ["a", "b", "c"].map((name) => ({
              name: `gpu-${name}`,
              attributes: { uuid: { string: gpuOf(name) } },
            })),
          },
        },
      );
      const driver = open({ gpus: { kind: "claim", deviceClass: driverName } });
      const [pair, same] = [planOf({ gpuUuids: [gpuOf("b"), gpuOf("c")] }), planOf({ gpuUuids: [gpuOf("c")] })];
      await driver.start(pair, signal());
      await until(driver, pair, "running");
      const devices = "jsonpath={.status.allocation.devices.results[*].device}";
      const claim = ["get", "resourceclaim", podNameOf(pair.instanceId), "-n", "stoker"];
      expect(await kubectl(...claim, "-o", devices)).toBe("gpu-b gpu-c");
      const disown = () =>
        kubectl(...claim.with(0, "patch"), "--type=json", "-p", '[{"op":"remove","path":"/metadata/ownerReferences"}]');
      // As it is left by an agent that ended before it had given the claim to its Pod.
      await disown();
      await driver.start(pair, signal());
      expect(await kubectl(...claim, "-o", "jsonpath={.metadata.ownerReferences[*].name}")).toBe(
        podNameOf(pair.instanceId),
      );
      await disown();
      await driver.start(same, signal());
      await waits(driver, same, /cannot allocate all claims/);
      await driver.remove(pair.instanceId, signal());
      await until(driver, same, "running");
      await vi.waitFor(() => expect(kubectl(...claim)).rejects.toThrow(/NotFound/), patient);
    });

    it("are admitted under the Pod Security Standard restricted on a claim, and refused with folders of the node", async () => {
      const label = (value: string) => kubectl("label", "ns", "stoker", `pod-security.kubernetes.io/enforce${value}`);
      await label("=restricted");
      try {
        const mounts = [{ source: join(root, "package.json"), target: "/models/model.gguf", readOnly: true }];
        const [onClaim, onNode] = [planOf({ mounts }), planOf({ mounts })];
        const driver = open({ data: { folder: root, claim: "weights", subPath: "node-1" } });
        await driver.start(onClaim, signal());
        await waits(driver, onClaim, /persistentvolumeclaim "weights" not found/);
        const refused = await open()
          .start(onNode, signal())
          .catch((error: unknown) => error);
        expect(refused).toMatchObject({ code: "start_failed", retryable: false });
        expect(wordsOf((refused as Error).cause)).toMatch(
          /violates PodSecurity "restricted:latest": restricted volume types/,
        );
      } finally {
        await label("-");
      }
    });

    it("run on while the API server is away, and their changes are noticed again afterwards", async () => {
      const driver = open();
      const plan = planOf();
      let calls = 0;
      driver.watch(() => calls++);
      await driver.start(plan, signal());
      const { origin } = await until(driver, plan, "running");
      const { resume } = await kubernetes.interrupt();
      await expect(driver.list(signal())).rejects.toMatchObject({ code: "engine_away", retryable: true });
      expect((await fetch(`${origin}/health`, { signal: signal() })).status).toBe(200);
      await resume();
      expect(await find(driver, plan)).toMatchObject({ state: "running" });
      await vi.waitFor(async () => {
        const before = calls;
        await kubectl("annotate", "pod", podNameOf(plan.instanceId), "-n", "stoker", `seen=${calls}`, "--overwrite");
        await vi.waitFor(() => expect(calls).toBeGreaterThan(before), { timeout: 2_000, interval: 50 });
      }, patient);
    });
  },
);
