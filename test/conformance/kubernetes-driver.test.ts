// The Kubernetes driver against the suite of every driver: a real API server with its etcd, the real scheduler and controllers. The
// kubelet is played (test/fakes/kubelet.ts).
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pino from "pino";
import { describe } from "vitest";
import { KubernetesDriver } from "../../agent/kubernetes/kubernetes-driver.ts";
import { podNameOf } from "../../agent/kubernetes/pod-labels.ts";
import { openTextSeals } from "../../agent/state/text-seal.ts";
import { startKubelet } from "../fakes/kubelet.ts";
import { hasKubernetes, startKubernetes } from "../fakes/kubernetes.ts";
import { driverConformance } from "./driver-suite.ts";

const programs = ["etcd", "kube-apiserver", "kube-scheduler", "kube-controller-manager", "kubectl"];

describe.runIf(hasKubernetes("the promises of every driver, on Kubernetes", programs))(
  "on a real API server, the",
  () => {
    driverConformance("kubernetes", async () => {
      const folder = mkdtempSync(join(tmpdir(), "stoker-driver-"));
      const kubernetes = await startKubernetes();
      kubernetes.startControllers();
      await kubernetes.kubectl(["create", "namespace", "models"]);
      const kubelet = await startKubelet(kubernetes, "node-1");
      let scripts = 0;
      return {
        open: async () =>
          new KubernetesDriver({
            kubeconfig: kubernetes.kubeconfig,
            namespace: "models",
            hostId: "host-1",
            node: "node-1",
            runtimeImage: "registry.example.com/tiny:1",
            pod: {},
            gpus: { kind: "resource", names: {} },
            seal: openTextSeals(join(folder, "key"), pino({ level: "silent" }))("pod"),
            log: pino({ level: "silent" }),
          }),
        plan(named, behaviour, memoryBytes) {
          const script = join(folder, `script-${++scripts}.json`);
          writeFileSync(script, JSON.stringify(behaviour));
          return {
            instanceId: named.instanceId,
            deployId: named.deployId,
            generation: named.generation,
            kind: "runtime",
            image: "",
            args: [],
            env: {
              STOKER_INSTANCE_ID: named.instanceId,
              STOKER_SERVED_MODEL_NAME: "tiny/model",
              TINY_RUNTIME_SCRIPT: script,
            },
            mounts: [],
            port: 8000,
            memoryBytes,
            cpus: 0.1,
            gpuUuids: [],
            shmBytes: 0,
          };
        },
        pidOf: async (id) => kubelet.pidOf(podNameOf(id)),
        clean: async () => {
          await kubelet.stop();
          await kubernetes.stop();
          rmSync(folder, { recursive: true, force: true });
        },
      };
    });
  },
);
