// Who may import whom (docs/ARCHITECTURE.md), read from the import statements themselves. No compiler is asked: a checker
// that relies on one may find nothing and pass, so each rule here also asserts that it saw files.
import { globSync, readFileSync } from "node:fs";
import { dirname, join, normalize, sep } from "node:path";
import { describe, expect, test } from "vitest";

const root = join(import.meta.dirname, "..");
const product = ["proto", "control-plane", "agent", "runtime", "cli", "console", "scripts", "simulator"];
const files = globSync(`{${product.join(",")}}/**/*.ts`, { cwd: root }).map((path) => path.split(sep).join("/"));

interface Import {
  readonly file: string;
  readonly target: string;
  readonly isTypeOnly: boolean;
}

/** A zone is the longest prefix that matches a file. Everyone may import proto and the own zone. */
interface Zone {
  readonly may?: readonly string[];
  /** Types alone: a port is declared by its user and implemented elsewhere. */
  readonly mayTypes?: readonly string[];
}

const leaves = [
  "accounts",
  "quotas",
  "billing",
  "catalog",
  "assets",
  "files",
  "fleet",
  "mail",
  "retention",
  "series",
].map((leaf) => `control-plane/${leaf}/`);
/** Every part of the control plane may import these. */
const common = [
  "control-plane/service-error.ts",
  "control-plane/error-codes.ts",
  "control-plane/account-slots.ts",
  "control-plane/act.ts",
  "control-plane/new-mail.ts",
  "control-plane/page.ts",
];
const featurePorts = [
  "deployments/",
  "inference/",
  "containers/",
  "agent-instances/",
  "terminals/",
  "webhooks/",
  "batches/",
  "responses/",
  "streams/",
  "oversight/",
  "identity/",
]
  .map((flow) => `control-plane/${flow}`)
  .concat(leaves);

const zones: Readonly<Record<string, Zone>> = {
  "proto/": {},
  "control-plane/": {},
  "control-plane/main.ts": { may: ["control-plane/"] },
  // The environment is read in one place, also where a leaf knows the grammar of a variable.
  "control-plane/config.ts": {
    may: ["retention/periods.ts", "plain-hosts.ts", "service-error.ts"].map((file) => `control-plane/${file}`),
  },
  "control-plane/admin-key.ts": { may: ["control-plane/"] },
  "control-plane/migrate.ts": { may: ["control-plane/"] },
  "control-plane/rotate-kek.ts": { may: ["control-plane/"] },
  "control-plane/rotate-invoice-key.ts": { may: ["control-plane/"] },
  "control-plane/backup.ts": { may: ["control-plane/"] },
  "control-plane/wiring/": { may: ["control-plane/"] },
  "control-plane/http/": {
    may: [
      "inference/",
      "deployments/",
      "containers/",
      "agent-instances/",
      "terminals/",
      "webhooks/",
      "batches/",
      "responses/",
      "streams/",
      "oversight/",
      "identity/",
    ]
      .map((flow) => `control-plane/${flow}`)
      .concat(leaves, common),
  },
  "control-plane/rpc/": {
    may: ["control-plane/deployments/", "control-plane/fleet/", "control-plane/billing/", ...common],
  },
  "control-plane/jobs/": {
    may: ["inference/", "deployments/", "billing/", "assets/"].map((part) => `control-plane/${part}`).concat(common),
    mayTypes: ["control-plane/batches/queue.ts"],
  },
  "control-plane/inference/": {
    may: ["accounts/", "quotas/", "billing/", "catalog/", "fleet/"]
      .map((leaf) => `control-plane/${leaf}`)
      .concat(common),
  },
  "control-plane/deployments/": {
    may: ["quotas/", "catalog/", "fleet/"].map((leaf) => `control-plane/${leaf}`).concat(common),
  },
  "control-plane/batches/": {
    may: ["accounts/", "billing/", "catalog/", "files/", "fleet/", "quotas/"]
      .map((leaf) => `control-plane/${leaf}`)
      .concat(common),
  },
  // Whoever rents takes what every deployment has.
  "control-plane/containers/": {
    may: ["deployments/", "quotas/", "fleet/"].map((part) => `control-plane/${part}`).concat(common),
  },
  // Providers are called as receivers of webhooks are.
  "control-plane/identity/": {
    may: [
      "control-plane/accounts/",
      "control-plane/webhooks/send.ts",
      "control-plane/webhooks/target.ts",
      "control-plane/plain-hosts.ts",
      ...common,
    ],
  },
  // Told by the edge how a body is run.
  "control-plane/webhooks/": {
    may: ["inference/", "accounts/", "billing/", "quotas/"].map((part) => `control-plane/${part}`).concat(common),
  },
  // Runs as requests with a webhook do, and is told by the edge how.
  "control-plane/responses/": { may: ["control-plane/webhooks/", "control-plane/accounts/", ...common] },
  // Streams are responses under idempotency keys.
  "control-plane/streams/": { may: ["control-plane/accounts/", ...common] },
  // What operators see and end of every tenant.
  "control-plane/oversight/": {
    may: ["deployments/", "containers/", "agent-instances/", "fleet/"]
      .map((flow) => `control-plane/${flow}`)
      .concat(common),
  },
  "control-plane/terminals/": { may: ["control-plane/deployments/", "control-plane/fleet/", ...common] },
  "control-plane/agent-instances/": { may: ["control-plane/deployments/", "control-plane/fleet/", ...common] },
  ...Object.fromEntries(leaves.map((leaf) => [leaf, { may: [...common, "control-plane/write-file.ts"] }])),
  "control-plane/store/": { may: [...common], mayTypes: featurePorts.map((feature) => `${feature}store.ts`) },
  "control-plane/blobs/": { may: [...common, "control-plane/files/blobs.ts", "control-plane/files/errors.ts"] },
  // The port's own error classes and values, so this one file may be imported whole.
  "control-plane/payments/": { may: [...common, "control-plane/billing/payments.ts"] },
  "control-plane/signals/": { may: [...common], mayTypes: featurePorts.map((feature) => `${feature}store.ts`) },
  "agent/": {},
  "agent/main.ts": { may: ["agent/"] },
  "agent/wiring/": { may: ["agent/"] },
  "agent/reconcile/": { may: ["agent/engines/"] },
  // The port's own error class is a value, so this one file may be imported whole.
  "agent/docker/": { may: ["agent/reconcile/driver.ts", "agent/containers/"] },
  "agent/kubernetes/": { may: ["agent/reconcile/driver.ts", "agent/containers/"] },
  // Parts of drivers that run containers.
  "agent/containers/": { may: ["agent/reconcile/driver.ts"] },
  "agent/process/": { may: ["agent/reconcile/driver.ts"] },
  "agent/external/": { may: ["agent/reconcile/driver.ts"] },
  "agent/ingress/": { mayTypes: ["agent/reconcile/driver.ts", "agent/reconcile/ports.ts"] },
  "agent/backups/": { mayTypes: ["agent/reconcile/driver.ts"] },
  "agent/state/": { mayTypes: ["agent/session/store.ts", "agent/ingress/spool.ts", "agent/metering/store.ts"] },
  "agent/engines/": { mayTypes: ["agent/reconcile/driver.ts"] },
  "agent/adapters/": { may: ["agent/engines/"], mayTypes: ["agent/reconcile/ports.ts"] },
  "agent/fingerprint/": {},
  "agent/session/": { mayTypes: ["agent/ingress/spool.ts"] },
  "agent/weights/": {},
  "agent/metering/": { mayTypes: ["agent/reconcile/ports.ts"] },
  "agent/metrics/": { mayTypes: ["agent/fingerprint/gpu-load.ts"] },
  "runtime/": { may: ["runtime/"] },
  // `stoker doctor` detects what an agent would, `stoker down` knows a process as `up` does.
  "cli/": { may: ["cli/", "agent/fingerprint/", "agent/process/process-identity.ts"] },
  // Runs in browsers and talks HTTP only. No type of the server's either: what it reads there is the published interface.
  "console/": {},
  // Runs the product's own decisions in virtual time; the product does not import it.
  "simulator/": {
    may: [
      "control-plane/inference/",
      "control-plane/deployments/autoscale.ts",
      "control-plane/deployments/scaling.ts",
      "control-plane/deployments/schedules.ts",
      "control-plane/fleet/routes.ts",
      "agent/ingress/gate.ts",
      "agent/ingress/recent-times.ts",
    ],
  },
  // Tools of the repository, not of the product: they may read any part of it, but no test.
  "scripts/": { may: ["agent/", "control-plane/", "runtime/", "cli/", "simulator/", "scripts/"] },
};

/** One importer per driver: the package appears in that folder alone. */
const drivers: Readonly<Record<string, readonly string[]>> = {
  kysely: ["control-plane/store/"],
  pg: ["control-plane/store/", "control-plane/jobs/"],
  stripe: ["control-plane/payments/", "test/"],
  ioredis: ["control-plane/signals/"],
  bullmq: ["control-plane/jobs/"],
  fastify: ["control-plane/http/", "scripts/openapi.ts"],
  react: ["console/"],
  nodemailer: ["control-plane/mail/"],
  "openid-client": ["control-plane/identity/"],
  dockerode: ["agent/docker/"],
  "@kubernetes/client-node": ["agent/kubernetes/"],
  "@aws-sdk/client-s3": ["agent/backups/", "agent/weights/", "control-plane/blobs/"],
  "node:sqlite": ["agent/state/"],
  // Loaded only where there is an exporter.
  ...Object.fromEntries(
    ["api", "sdk-trace", "resources", "exporter-trace-otlp-proto"].map((name) => [
      `@opentelemetry/${name}`,
      ["proto/open-telemetry.ts"],
    ]),
  ),
  "node-llama-cpp": ["runtime/llama/"],
  "onnxruntime-node": ["runtime/onnx/"],
  "@huggingface/transformers": ["runtime/onnx/"],
};

describe("the import rules", () => {
  const imports = files.flatMap(importsOf);

  test("are checked against real files", () => {
    expect(files.length).toBeGreaterThan(50);
    expect(imports.length).toBeGreaterThan(100);
  });

  test("every file imports only what its zone may", () => {
    const wrong = imports.filter((one) => isLocal(one.target) && !isAllowed(one));
    expect(wrong.map(sentence)).toEqual([]);
  });

  test("each driver package has one importer", () => {
    const wrong = imports.filter(({ file, target }) => {
      const allowed = drivers[packageOf(target)];
      return allowed !== undefined && !allowed.some((prefix) => file.startsWith(prefix));
    });
    expect(wrong.map(sentence)).toEqual([]);
  });

  test("no two zones import each other in a circle of features", () => {
    const between = new Set(
      imports
        .filter((one) => isLocal(one.target) && !one.isTypeOnly)
        .map((one) => `${folderOf(one.file)} ${folderOf(one.target)}`),
    );
    const circles = [...between].filter((edge) => {
      const [from, to] = edge.split(" ");
      return from !== to && !isRoot(from) && !isRoot(to) && between.has(`${to} ${from}`);
    });
    expect(circles).toEqual([]);
  });

  // Types count as well: files that need each other's types are one concept, or the type has another owner.
  test("no files import each other in a circle", () => {
    expect(circlesOf(imports).map((circle) => circle.join(" -> "))).toEqual([]);
  });
});

/** Returns one shortest circle of every file that is in one, each circle once. */
function circlesOf(all: readonly Import[]): string[][] {
  const targets = new Map<string, string[]>();
  for (const { file, target } of all) targets.set(file, [...(targets.get(file) ?? []), target]);
  const circles = new Map<string, string[]>();
  for (const start of targets.keys()) {
    const circle = shortestCircle(start, targets);
    if (circle) circles.set([...new Set(circle)].sort().join(), circle);
  }
  return [...circles.values()];
}

function shortestCircle(start: string, targets: ReadonlyMap<string, readonly string[]>): string[] | undefined {
  const importers = new Map<string, string>();
  const queue = [start];
  for (const file of queue) {
    for (const target of targets.get(file) ?? []) {
      if (importers.has(target)) continue;
      importers.set(target, file);
      if (target === start) return pathTo(start, importers);
      queue.push(target);
    }
  }
  return undefined;
}

function pathTo(start: string, importers: ReadonlyMap<string, string>): string[] {
  const path = [start];
  for (let file = importers.get(start); file !== undefined && file !== start; file = importers.get(file))
    path.unshift(file);
  return [start, ...path];
}

function importsOf(file: string): Import[] {
  const text = readFileSync(join(root, file), "utf8");
  const found: Import[] = [];
  const add = (specifier: string, isTypeOnly: boolean): void => {
    const target = specifier.startsWith(".")
      ? normalize(join(dirname(file), specifier))
          .split(sep)
          .join("/")
      : specifier;
    found.push({ file, target, isTypeOnly });
  };
  for (const [, type, names = "", specifier = ""] of text.matchAll(
    /^\s*(?:import|export)\s+(type\s+)?([^"';]*?)\s*from\s*["']([^"']+)["']/gm,
  )) {
    add(specifier, type !== undefined || namesAreTypes(names));
  }
  for (const [, specifier = ""] of text.matchAll(/^\s*import\s+["']([^"']+)["']/gm)) add(specifier, false);
  for (const [, specifier = ""] of text.matchAll(/\bimport\(\s*["'`]([^"'`]+)["'`]/g)) add(specifier, false);
  return found;
}

function namesAreTypes(names: string): boolean {
  const listed = /^\{([^}]*)\}$/.exec(names.trim())?.[1];
  const items =
    listed
      ?.split(",")
      .map((name) => name.trim())
      .filter((name) => name !== "") ?? [];
  return items.length > 0 && items.every((name) => name.startsWith("type "));
}

function isAllowed({ file, target, isTypeOnly }: Import): boolean {
  const key = zoneOf(file);
  const zone = zones[key];
  if (!zone) return false;
  if (target.startsWith("proto/") || (key.endsWith("/") && zoneOf(target) === key)) return true;
  const starts = (prefix: string): boolean => target.startsWith(prefix);
  return (zone.may ?? []).some(starts) || (isTypeOnly && (zone.mayTypes ?? []).some(starts));
}

function zoneOf(path: string): string {
  return Object.keys(zones).reduce((best, key) => (path.startsWith(key) && key.length > best.length ? key : best), "");
}

const isLocal = (target: string): boolean => /^[\w-]+\/.*\.(ts|json|mjs)$/.test(target) && !target.startsWith("node:");
const packageOf = (target: string): string =>
  target.startsWith("node:") ? target : target.split("/", target.startsWith("@") ? 2 : 1).join("/");
const folderOf = (path: string): string => path.split("/").slice(0, 2).join("/");
const isRoot = (folder = ""): boolean =>
  folder.endsWith(".ts") || !folder.includes("/") || /^(cli|console|scripts|proto|runtime|simulator)\//.test(folder);
const sentence = ({ file, target, isTypeOnly }: Import): string =>
  `${file} must not import ${isTypeOnly ? "types of " : ""}${target}`;
