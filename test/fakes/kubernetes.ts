// A real API server of Kubernetes with its etcd, on loopback, without nodes: what scripts/go-tools.sh kubernetes builds. Objects are admitted,
// defaulted, stored and watched as in a cluster; Pods stay pending unless a test plays the kubelet.
import { type ChildProcess, execFile, execFileSync, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { existsSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { promisify } from "node:util";
import { freePort } from "./free-port.ts";
import { atWorkerEnd } from "./worker-end.ts";

const run = promisify(execFile);
export const kubernetesFolder = join(import.meta.dirname, "../../.cache/kubernetes");
const startLimitMs = 120_000;

export interface Kubernetes {
  /** https://127.0.0.1:PORT */
  readonly url: string;
  /** Bearer token of a user in system:masters. */
  readonly token: string;
  /** Certificate of the API server, in PEM. */
  readonly caFile: string;
  readonly kubeconfig: string;
  /** kubectl as that user; answers with its standard output. Rejects with its `stderr`. */
  kubectl(args: readonly string[], input?: string): Promise<string>;
  /** Starts the real scheduler and the real controllers. */
  startControllers(): void;
  /** Ends the API server at once; `resume` starts it again, on the same data. */
  interrupt(): Promise<{ resume(): Promise<void> }>;
  stop(): Promise<void>;
}

/** True when the programs are there; otherwise says loudly what is not proven. */
export function hasKubernetes(
  notProven: string,
  programs: readonly string[] = ["etcd", "kube-apiserver", "kubectl"],
): boolean {
  const missing = programs.filter((name) => !existsSync(join(kubernetesFolder, name)));
  if (missing.length === 0) return true;
  process.stderr.write(
    `\nNOT PROVEN: ${notProven}: no ${missing.join(", ")} in .cache/kubernetes (run scripts/go-tools.sh kubernetes)\n`,
  );
  return false;
}

/** `flags`: more flags of kube-apiserver. */
export async function startKubernetes(flags: readonly string[] = []): Promise<Kubernetes> {
  const folder = mkdtempSync(join(tmpdir(), "stoker-kubernetes-"));
  const at = (name: string) => join(folder, name);
  const [client, peer, port] = [await freePort(), await freePort(), await freePort()];
  const token = randomBytes(16).toString("hex");
  writeFileSync(at("tokens.csv"), `${token},admin,admin,system:masters\n`, { mode: 0o600 });
  execFileSync("openssl", ["genrsa", "-out", at("service-account.key"), "2048"], { stdio: "ignore" });
  const children: ChildProcess[] = [];
  const start = (name: string, args: readonly string[]): ChildProcess => {
    const log = openSync(at(`${name}.log`), "a");
    const child = spawn(join(kubernetesFolder, name), args, { stdio: ["ignore", log, log] });
    children.push(child);
    return child;
  };
  const clear = () => {
    for (const child of children.toReversed()) child.kill("SIGKILL");
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  };
  const forget = atWorkerEnd(clear);
  const stop = async () => {
    const gone = children.map(
      (child) =>
        child.exitCode !== null || child.signalCode !== null || new Promise((resolve) => child.once("exit", resolve)),
    );
    for (const child of children) child.kill("SIGKILL");
    await Promise.all(gone);
    clear();
    forget();
  };
  const etcd = `http://127.0.0.1:${client}`;
  start("etcd", [
    ...["--data-dir", at("etcd"), "--unsafe-no-fsync", "--log-level", "error"],
    ...["--listen-client-urls", etcd, "--advertise-client-urls", etcd],
    ...["--listen-peer-urls", `http://127.0.0.1:${peer}`, "--initial-advertise-peer-urls", `http://127.0.0.1:${peer}`],
    ...["--initial-cluster", `default=http://127.0.0.1:${peer}`],
  ]);
  const startServer = () =>
    start("kube-apiserver", [
      ...["--etcd-servers", etcd, "--cert-dir", at("certificates"), "--bind-address", "127.0.0.1"],
      ...["--secure-port", String(port), "--token-auth-file", at("tokens.csv"), "--authorization-mode", "Node,RBAC"],
      ...[
        "--service-account-issuer",
        "https://kubernetes.default.svc",
        "--service-account-key-file",
        at("service-account.key"),
      ],
      ...[
        "--service-account-signing-key-file",
        at("service-account.key"),
        "--service-cluster-ip-range",
        "10.96.0.0/16",
      ],
      // No controller creates the service account `default` of a namespace.
      ...["--disable-admission-plugins", "ServiceAccount", "--allow-privileged", "--endpoint-reconciler-type", "none"],
      ...flags,
    ]);
  let server = startServer();
  const caFile = at("certificates/apiserver.crt");
  const url = `https://127.0.0.1:${port}`;
  const kubeconfig = at("kubeconfig");
  const kubectl = async (args: readonly string[], input?: string) => {
    const running = run(join(kubernetesFolder, "kubectl"), ["--kubeconfig", kubeconfig, ...args], {
      env: { HOME: folder, PATH: process.env["PATH"] },
      maxBuffer: 64 * 1024 * 1024,
    });
    running.child.stdin?.end(input);
    return (await running).stdout;
  };
  const untilReady = async () => {
    for (const endMs = performance.now() + startLimitMs; ; ) {
      if (server.exitCode !== null || performance.now() > endMs) throw new Error("kube-apiserver did not start");
      if (existsSync(caFile) && existsSync(at("certificates/apiserver.key"))) {
        writeFileSync(kubeconfig, kubeconfigOf(url, caFile, token), { mode: 0o600 });
        if (await kubectl(["get", "--raw", "/readyz"]).catch(() => undefined)) break;
      }
      await wait(250);
    }
  };
  try {
    await untilReady();
  } catch (error) {
    const log = readFileSync(at("kube-apiserver.log"), "utf8").slice(-3000);
    await stop();
    throw new Error(`Kubernetes did not start:\n${log}`, { cause: error });
  }
  const startControllers = () => {
    start("kube-scheduler", ["--kubeconfig", kubeconfig, "--leader-elect=false", "--secure-port=0"]);
    start("kube-controller-manager", [
      ...["--kubeconfig", kubeconfig, "--leader-elect=false", "--secure-port=0"],
      // Two nodes are lost within a test.
      ...["--node-monitor-grace-period=8s", "--node-monitor-period=1s"],
    ]);
  };
  const interrupt = async () => {
    const gone = new Promise((resolve) => server.once("exit", resolve));
    server.kill("SIGKILL");
    await gone;
    return {
      async resume() {
        server = startServer();
        await untilReady();
      },
    };
  };
  return { url, token, caFile, kubeconfig, kubectl, startControllers, interrupt, stop };
}

function kubeconfigOf(server: string, caFile: string, token: string): string {
  return JSON.stringify({
    apiVersion: "v1",
    kind: "Config",
    "current-context": "test",
    clusters: [{ name: "test", cluster: { server, "certificate-authority": caFile } }],
    users: [{ name: "admin", user: { token } }],
    contexts: [{ name: "test", context: { cluster: "test", user: "admin" } }],
  });
}
