// The Helm chart: rendered by Helm, and admitted by a real API server of Kubernetes.
import { execFile } from "node:child_process";
import { existsSync, globSync } from "node:fs";
import { basename, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parseAllDocuments } from "yaml";
import { hasKubernetes, type Kubernetes, kubernetesFolder, startKubernetes } from "../../fakes/kubernetes.ts";

const run = promisify(execFile);
const root = join(import.meta.dirname, "../../..");
const chart = join(root, "deploy/helm/stoker");
const valuesOf = (name: string) => join(root, "test/fixtures/helm", `${name}.yaml`);
const names = globSync("*.yaml", { cwd: join(root, "test/fixtures/helm") })
  .map((file) => basename(file, ".yaml"))
  .sort();
const promise = "that the Helm chart renders, and that Kubernetes admits what it renders";
const hasHelm = hasKubernetes(promise, ["helm"]);

interface KubeObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly annotations?: Record<string, string> };
  // biome-ignore lint/suspicious/noExplicitAny: a test reads what it expects and fails where it is not there.
  readonly spec?: any;
  readonly data?: Record<string, string>;
}

const helm = (...args: string[]) => run(join(kubernetesFolder, "helm"), args, { maxBuffer: 64 * 1024 * 1024 });
async function render(...args: string[]): Promise<readonly KubeObject[]> {
  const flags = ["--namespace", "stoker", "--kube-version", "1.34.0"];
  const { stdout } = await helm("template", "stoker", chart, ...flags, ...args);
  return parseAllDocuments(stdout)
    .map((document) => document.toJS({ maxAliasCount: 0 }) as KubeObject | null)
    .filter((object) => object !== null);
}
const withValues = (name: string) => render("--values", valuesOf(name));
const podOf = ({ spec }: KubeObject) => spec.template.spec;
/** Objects of the Prometheus operator have definitions that no part of Kubernetes brings. */
const isForeign = ({ apiVersion }: KubeObject) => apiVersion.startsWith("monitoring.coreos.com/");

describe.runIf(hasHelm)("the chart, rendered by Helm", () => {
  it("passes helm lint with its defaults and with each set of values", async () => {
    const defaults = ["--set", "controlPlane.filesElsewhere=true"];
    await helm("lint", "--strict", "--kube-version", "1.34.0", ...defaults, chart);
    for (const name of names)
      await helm("lint", "--strict", "--kube-version", "1.34.0", "--values", valuesOf(name), chart);
  });

  it("refuses a misspelt value, and one of a wrong type", async () => {
    await expect(render("--set", "controlPlane.replica=3")).rejects.toThrow(/replica/);
    await expect(render("--set", "agents.dataPort=none")).rejects.toThrow(/dataPort/);
    await expect(render()).rejects.toThrow(/controlPlane.filesClaim or STOKER_FILES_S3_BUCKET/);
  });

  it("refuses agents that may create Pods in the namespace of control planes", async () => {
    const beside = ["--set", "controlPlane.enabled=true", "--set", "controlPlane.filesElsewhere=true"];
    for (const name of ["pods", "pods-on-nodes"])
      await expect(render("--values", valuesOf(name), ...beside)).rejects.toThrow(/in a namespace of their own/);
    await expect(render("--values", valuesOf("agents"), ...beside)).resolves.toBeDefined();
  });

  it("migrates in a hook before an upgrade, with the image that the upgrade brings", async () => {
    const objects = await withValues("production");
    const job = objects.find(({ kind }) => kind === "Job") as KubeObject;
    const deployment = objects.find(({ kind }) => kind === "Deployment") as KubeObject;
    expect(job.metadata.annotations?.["helm.sh/hook"]).toBe("pre-install,pre-upgrade");
    expect(podOf(job).containers[0].args).toEqual(["/app/control-plane/migrate.ts"]);
    expect(podOf(job).containers[0].image).toBe(podOf(deployment).containers[0].image);
    expect(existsSync(join(root, "control-plane/migrate.ts"))).toBe(true);
  });

  it("has the boards and alerts of deploy/, with the runbooks of this installation", async () => {
    const objects = await withValues("production");
    const boards = objects.filter(({ kind }) => kind === "ConfigMap").flatMap(({ data = {} }) => Object.keys(data));
    expect(boards.sort()).toEqual(globSync("*.json", { cwd: join(root, "deploy/grafana") }).sort());
    const rules = JSON.stringify(objects.find(({ kind }) => kind === "PrometheusRule")?.spec.groups);
    expect(rules).toContain("https://ai.example.org/docs/operations/alerts#");
    expect(rules).not.toContain("stoker.example.com");
  });

  it("does not fix the number of replicas where it is scaled automatically", async () => {
    const replicas = async (name: string) =>
      (await withValues(name)).find(({ kind }) => kind === "Deployment")?.spec.replicas;
    expect([await replicas("production"), await replicas("small")]).toEqual([undefined, 1]);
  });
});

describe.runIf(hasHelm && hasKubernetes(promise))("the chart, on a real API server", () => {
  let kubernetes: Kubernetes;

  beforeAll(async () => {
    kubernetes = await startKubernetes();
    await kubernetes.kubectl(["create", "namespace", "stoker"]);
    await kubernetes.kubectl(["create", "namespace", "agents"]);
    const enforce = "pod-security.kubernetes.io/enforce=restricted";
    await kubernetes.kubectl(["label", "namespace", "stoker", enforce]);
  });
  afterAll(() => kubernetes?.stop());

  const apply = (objects: readonly object[], namespace = "stoker") =>
    kubernetes.kubectl(
      ["apply", "--server-side", "--dry-run=server", "--validate=strict", "--namespace", namespace, "--filename", "-"],
      objects.map((object) => JSON.stringify(object)).join("\n---\n"),
    );

  it.each(names)("admits every object of the values %s, and no field that it does not know", async (name) => {
    const objects = (await withValues(name)).filter((object) => !isForeign(object));
    expect(objects.length).toBeGreaterThan(1);
    const admitted = await apply(objects, name === "agents" ? "agents" : "stoker");
    expect(admitted.trim().split("\n")).toHaveLength(objects.length);
    const [first] = objects;
    await expect(apply([{ ...first, unknownField: 1 }])).rejects.toThrow(/unknownField/);
  });

  it("runs control planes and migrations under the Pod Security Standard restricted, and those agents alone whose model servers are Pods on a claim", async () => {
    const pod = (object: KubeObject) => ({
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name: object.metadata.name },
      spec: podOf(object),
    });
    const own = (await withValues("production")).filter(({ kind }) => ["Deployment", "Job"].includes(kind));
    expect(own).toHaveLength(2);
    await apply(
      own.map((object) => {
        const { priorityClassName: _, ...spec } = podOf(object);
        return { ...pod(object), spec };
      }),
    );
    const daemonOf = async (name: string) =>
      (await withValues(name)).find(({ kind }) => kind === "DaemonSet") as KubeObject;
    await apply([pod(await daemonOf("pods"))]);
    const onNodes = daemonOf("pods-on-nodes").then((object) => {
      const { runtimeClassName: _, ...spec } = podOf(object);
      return apply([{ ...pod(object), spec }]);
    });
    await expect(onNodes).rejects.toThrow(/violates PodSecurity "restricted.*hostPath/);
    const [agent] = (await withValues("agents")).filter(({ kind }) => kind === "DaemonSet");
    const { runtimeClassName: _, ...spec } = podOf(agent as KubeObject);
    await expect(apply([{ ...pod(agent as KubeObject), spec }])).rejects.toThrow(/violates PodSecurity "restricted/);
  });
});
