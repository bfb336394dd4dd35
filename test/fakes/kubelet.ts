// Plays the kubelet of one node against a real API server: Pods that the scheduler binds to it run as plain processes of the tiny
// runtime, each at a loopback address of its own. It confirms what kubelets confirm: starts, exits, ends by deadline and by deletion.
// What containers isolate (files, memory, networks, users) is not here.
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import {
  CoordinationV1Api,
  CoreV1Api,
  KubeConfig,
  PatchStrategy,
  setHeaderOptions,
  V1MicroTime,
  type V1Pod,
} from "@kubernetes/client-node";
import { signalOf } from "../../agent/containers/exit-signal.ts";
import { pause } from "../../proto/pause.ts";
import type { Kubernetes } from "./kubernetes.ts";
import { atWorkerEnd } from "./worker-end.ts";

interface Running {
  readonly pod: V1Pod;
  readonly child: ChildProcess;
  readonly address: string;
  readonly startedAt: Date;
  readonly lines: string[];
  exit: { readonly code: number; readonly at: Date } | undefined;
  isOutOfMemory: boolean;
  killAtMs: number | undefined;
  isDeadline: boolean;
  said: string;
}

const program = join(import.meta.dirname, "tiny-runtime.ts");
const lookMs = 150;
const leaseMs = 2_000;
let addresses = 0;

export type Kubelet = Awaited<ReturnType<typeof startKubelet>>;

/** `resources`: of the node besides processors, memory and Pods. */
export async function startKubelet(
  kubernetes: Pick<Kubernetes, "kubeconfig">,
  node: string,
  resources: Readonly<Record<string, string>> = {},
) {
  const config = new KubeConfig();
  config.loadFromFile(kubernetes.kubeconfig);
  const core = config.makeApiClient(CoreV1Api);
  const coordination = config.makeApiClient(CoordinationV1Api);
  const merge = setHeaderOptions("Content-Type", PatchStrategy.StrategicMergePatch);
  const running = new Map<string, Running>();
  const ending = new AbortController();
  let isLost = false;
  let pulls = 0;

  const logs = createLogServer((name) => running.values().find(({ pod }) => pod.metadata?.name === name)?.lines);
  await new Promise<void>((resolve) => logs.server.listen(0, "127.0.0.1", resolve));

  await core.createNode({ body: { metadata: { name: node, labels: { "kubernetes.io/hostname": node } } } });
  const capacity = { cpu: "64", memory: "64Gi", pods: "110", ...resources };
  await core.patchNodeStatus(
    {
      name: node,
      body: {
        status: {
          capacity,
          allocatable: capacity,
          addresses: [{ type: "InternalIP", address: "127.0.0.1" }],
          daemonEndpoints: { kubeletEndpoint: { Port: (logs.server.address() as AddressInfo).port } },
          conditions: [readyCondition(true)],
        },
      },
    },
    merge,
  );

  const report = async ({ pod }: Pick<Running, "pod">, status: object) => {
    const { name = "", namespace = "" } = pod.metadata ?? {};
    await core.patchNamespacedPodStatus({ name, namespace, body: { status } }, merge).catch(() => {});
  };

  const begin = (pod: V1Pod): Running => {
    addresses += 1;
    const address = `127.77.${Math.floor(addresses / 250)}.${(addresses % 250) + 1}`;
    const container = pod.spec?.containers[0];
    const env = Object.fromEntries((container?.env ?? []).map(({ name, value = "" }) => [name, onHost(pod, value)]));
    const port = container?.ports?.[0]?.containerPort ?? 8000;
    const child = spawn(process.execPath, [program, ...(container?.args ?? [])], {
      env: { PATH: process.env["PATH"], ...env, STOKER_HOST: address, STOKER_PORT: String(port) },
      stdio: ["ignore", "pipe", "pipe"],
      detached: true,
    });
    const one: Running = {
      pod,
      child,
      address,
      startedAt: new Date(),
      lines: [],
      exit: undefined,
      isOutOfMemory: false,
      killAtMs: undefined,
      isDeadline: false,
      said: "",
    };
    for (const stream of [child.stdout, child.stderr])
      if (stream) createInterface(stream).on("line", (line) => one.lines.push(`${stampNow()} ${line}`));
    child.once("exit", (code, signal) => {
      // As the end of the first process ends its container.
      signalGroup(child, "SIGKILL");
      one.exit = { code: code ?? 128 + (signal === "SIGKILL" ? 9 : signal === "SIGTERM" ? 15 : 1), at: new Date() };
    });
    return one;
  };

  const advance = async (one: Running, seen: V1Pod, nowMs: number) => {
    const { memory } = seen.spec?.containers[0]?.resources?.limits ?? {};
    if (!one.exit && memory && residentBytes(one.child.pid ?? 0) > Number(memory)) {
      one.isOutOfMemory = true;
      signalGroup(one.child, "SIGKILL");
    }
    const deadline = seen.spec?.activeDeadlineSeconds;
    const isOver = deadline !== undefined && nowMs - one.startedAt.getTime() > deadline * 1000;
    const grace = seen.metadata?.deletionTimestamp
      ? seen.metadata.deletionGracePeriodSeconds
      : isOver
        ? seen.spec?.terminationGracePeriodSeconds
        : undefined;
    if (grace !== undefined && !one.exit) {
      if (one.killAtMs === undefined) one.child.kill("SIGTERM");
      one.isDeadline ||= isOver && !seen.metadata?.deletionTimestamp;
      one.killAtMs = Math.min(one.killAtMs ?? Number.POSITIVE_INFINITY, nowMs + Math.max(1, grace) * 1000);
    }
    if (one.killAtMs !== undefined && nowMs >= one.killAtMs && !one.exit) signalGroup(one.child, "SIGKILL");
    const status = statusOf(one);
    const text = JSON.stringify(status);
    if (text !== one.said) {
      one.said = text;
      await report(one, status);
    }
    if (one.exit && seen.metadata?.deletionTimestamp) await confirmGone(seen);
  };

  const confirmGone = async (pod: V1Pod) => {
    const { name = "", namespace = "", uid = "" } = pod.metadata ?? {};
    const body = { gracePeriodSeconds: 0, preconditions: { uid } };
    await core.deleteNamespacedPod({ name, namespace, body }).catch(() => {});
  };

  const look = async () => {
    const { items } = await core.listPodForAllNamespaces({ fieldSelector: `spec.nodeName=${node}` });
    if (isLost) return;
    for (const pod of items) {
      const uid = pod.metadata?.uid ?? "";
      const isOver = pod.status?.phase === "Failed" || pod.status?.phase === "Succeeded";
      let one = running.get(uid);
      if (!one && (isOver || pod.metadata?.deletionTimestamp)) await confirmGoneIfDeleted(pod);
      else if (!one && pod.spec?.containers[0]?.image?.includes("missing"))
        await report({ pod }, notPulled(pod, ++pulls));
      else {
        one ??= begin(pod);
        running.set(uid, one);
        await advance(one, pod, Date.now());
      }
    }
    const present = new Set(items.map(({ metadata }) => metadata?.uid));
    for (const [uid, one] of running) {
      if (present.has(uid)) continue;
      signalGroup(one.child, "SIGKILL");
      running.delete(uid);
    }
  };
  const confirmGoneIfDeleted = (pod: V1Pod) => (pod.metadata?.deletionTimestamp ? confirmGone(pod) : undefined);

  let leasedMs = Number.NEGATIVE_INFINITY;
  const lease = async () => {
    if (performance.now() - leasedMs < leaseMs) return;
    leasedMs = performance.now();
    const namespace = "kube-node-lease";
    const spec = { holderIdentity: node, leaseDurationSeconds: 8, renewTime: new V1MicroTime() };
    const found = await coordination.readNamespacedLease({ name: node, namespace }).catch(() => undefined);
    if (found) await coordination.replaceNamespacedLease({ name: node, namespace, body: { ...found, spec } });
    else await coordination.createNamespacedLease({ namespace, body: { metadata: { name: node }, spec } });
    await core.patchNodeStatus({ name: node, body: { status: { conditions: [readyCondition(true)] } } }, merge);
  };
  const run = (async () => {
    while (!ending.signal.aborted) {
      if (!isLost) await Promise.all([look(), lease()]).catch(() => {});
      await pause(lookMs, ending.signal);
    }
  })();
  const clear = () => {
    for (const { child } of running.values()) signalGroup(child, "SIGKILL");
    logs.server.close();
    logs.server.closeAllConnections();
    logs.clean();
  };
  const forget = atWorkerEnd(clear);

  return {
    pidOf(podName: string): number {
      const one = [...running.values()].findLast(({ pod }) => pod.metadata?.name === podName);
      return one?.child.pid ?? 0;
    },
    /** The node's kubelet does nothing and says nothing; what runs there runs on. */
    lose() {
      isLost = true;
    },
    recover() {
      isLost = false;
    },
    async stop() {
      ending.abort();
      await run;
      clear();
      forget();
    },
  };
}

const readyCondition = (isReady: boolean) => ({
  type: "Ready",
  status: isReady ? "True" : "False",
  reason: "KubeletReady",
  message: "played by a test",
  lastHeartbeatTime: new Date(),
  lastTransitionTime: new Date(),
});

function statusOf(one: Running) {
  const { pod, exit, startedAt, address, isOutOfMemory, isDeadline } = one;
  const container = { name: "server", image: pod.spec?.containers[0]?.image, imageID: "", restartCount: 0 };
  const signal = exit && signalOf(exit.code);
  const reason = isOutOfMemory ? "OOMKilled" : exit?.code === 0 ? "Completed" : "Error";
  const ended = exit && { exitCode: exit.code, reason, startedAt, finishedAt: exit.at };
  const phase = !exit ? "Running" : isDeadline || exit.code !== 0 || signal ? "Failed" : "Succeeded";
  return {
    phase,
    ...(exit && isDeadline ? { reason: "DeadlineExceeded", message: "Pod was active longer than its deadline" } : {}),
    startTime: startedAt,
    podIP: address,
    podIPs: [{ ip: address }],
    conditions: [{ type: "Ready", status: exit ? "False" : "True", lastTransitionTime: exit?.at ?? startedAt }],
    containerStatuses: [
      { ...container, ready: !exit, started: !exit, state: ended ? { terminated: ended } : { running: { startedAt } } },
    ],
  };
}

/** Kubelets report the failure and the wait for the next try by turns. */
const notPulled = (pod: V1Pod, attempt: number) => ({
  phase: "Pending",
  containerStatuses: [
    {
      name: "server",
      image: pod.spec?.containers[0]?.image,
      imageID: "",
      restartCount: 0,
      ready: false,
      state: {
        waiting:
          attempt % 2 === 1
            ? { reason: "ErrImagePull", message: "the registry has no such image" }
            : { reason: "ImagePullBackOff", message: "Back-off pulling image: the registry has no such image" },
      },
    },
  ],
});

/** A path inside, as it is on this machine. Kubelets take two dollars for one. */
function onHost({ spec }: V1Pod, given: string): string {
  const text = given.replaceAll("$$", "$");
  for (const { name, mountPath } of spec?.containers[0]?.volumeMounts ?? []) {
    const path = spec?.volumes?.find((volume) => volume.name === name)?.hostPath?.path;
    if (path && (text === mountPath || text.startsWith(`${mountPath}/`))) return path + text.slice(mountPath.length);
  }
  return text;
}

function createLogServer(linesOf: (pod: string) => readonly string[] | undefined) {
  const folder = mkdtempSync(join(tmpdir(), "stoker-kubelet-"));
  const [key, cert] = [join(folder, "key.pem"), join(folder, "cert.pem")];
  const subject = ["-subj", "/CN=kubelet", "-days", "1", "-nodes"];
  execFileSync("openssl", ["req", "-x509", "-newkey", "rsa:2048", "-keyout", key, "-out", cert, ...subject], {
    stdio: "ignore",
  });
  const server = createServer({ key: readFileSync(key), cert: readFileSync(cert) }, (req, res) => {
    const url = new URL(req.url ?? "/", "https://kubelet");
    const [, pod = ""] = /^\/containerLogs\/[^/]+\/([^/]+)\/server$/.exec(url.pathname) ?? [];
    const lines = linesOf(pod);
    if (!lines) return void res.writeHead(404).end("no such container");
    const tail = url.searchParams.get("tailLines");
    const wanted = tail === null ? lines : Number(tail) === 0 ? [] : lines.slice(-Number(tail));
    res.end(wanted.map((line) => `${line}\n`).join(""));
  });
  return { server, clean: () => rmSync(folder, { recursive: true, force: true }) };
}

function residentBytes(pid: number): number {
  try {
    return Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0) * 1024;
  } catch {
    return 0;
  }
}

function signalGroup({ pid }: ChildProcess, signal: NodeJS.Signals): void {
  try {
    if (pid !== undefined) process.kill(-pid, signal);
  } catch {
    // It has ended.
  }
}

let lastNanos = 0n;
/** As container runtimes write it, and never twice. */
function stampNow(): string {
  const nowNanos = BigInt(Date.now()) * 1_000_000n;
  lastNanos = nowNanos > lastNanos ? nowNanos : lastNanos + 1n;
  const seconds = new Date(Number(lastNanos / 1_000_000n)).toISOString().slice(0, 19);
  return `${seconds}.${String(lastNanos % 1_000_000_000n).padStart(9, "0")}Z`;
}
