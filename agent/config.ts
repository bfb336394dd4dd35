// Environment of the agent -> one frozen object. Every problem is reported at once.
import { accessSync, constants } from "node:fs";
import { BlockList, isIP } from "node:net";
import { hostname } from "node:os";
import { join, resolve } from "node:path";
import { isLoopbackHost } from "../proto/address-rules.ts";
import { gpuVendors } from "../proto/gpu-vendors.ts";
import { readIfPresent } from "../proto/replace-file.ts";
import { readS3Settings } from "../proto/s3-settings.ts";
import { readTracing } from "../proto/tracing-settings.ts";
import { Secret } from "./secret.ts";

export type AgentConfig = ReturnType<typeof readConfig>;

class ConfigError extends Error {
  constructor(problems: readonly string[]) {
    super(`the agent cannot start: ${problems.join("; ")}`);
    this.name = "ConfigError";
  }
}

const root = resolve(import.meta.dirname, "..");
const drivers = ["process", "docker", "kubernetes", "auto"] as const;
const gpuMetrics = ["native", "dcgm", "off"] as const;
const firewalls = ["auto", "required"] as const;
const logLevels = ["trace", "debug", "info", "warn", "error", "fatal", "silent"];

type Settings = ReturnType<typeof settingsOf>;

/** Reads single settings and collects what is wrong with them. */
function settingsOf(env: Readonly<Record<string, string | undefined>>) {
  const problems: string[] = [];
  const text = (key: string) => env[key]?.trim() || undefined;
  const need = (key: string, what: string) => {
    const value = text(key);
    if (value === undefined) problems.push(`${key} is required (${what})`);
    return value ?? "";
  };
  const number = (key: string, min: number, max: number) => {
    const raw = text(key);
    if (raw === undefined) return undefined;
    const value = Number(raw);
    if (!Number.isSafeInteger(value) || value < min || value > max)
      problems.push(`${key} must be a whole number from ${min} to ${max}, not ${JSON.stringify(raw)}`);
    return value;
  };
  const seconds = (key: string, min = 1) => {
    const value = number(key, min, 3_600);
    return value === undefined ? undefined : value * 1000;
  };
  const oneOf = <T extends string>(key: string, values: readonly T[], fallback: T): T => {
    const raw = text(key) ?? fallback;
    if (!(values as readonly string[]).includes(raw)) problems.push(`${key} must be one of ${values.join(", ")}`);
    return raw as T;
  };
  return { problems, text, need, number, seconds, oneOf };
}

/** Where the state, the control planes and the data path of this agent are. */
function readPlaces({ problems, text, need, oneOf }: Settings) {
  const localDesired = text("STOKER_LOCAL_DESIRED");
  const dataDir = resolve(need("STOKER_AGENT_DATA", "folder for the agent's state"));
  const control = localDesired ? "" : need("STOKER_CONTROL", "host:port of each control plane, separated by commas");
  const addresses = control === "" ? [] : control.split(",").map((address) => address.trim());
  if (!addresses.every((address) => /^[^\s/]+:\d{1,5}$/.test(address)))
    problems.push("STOKER_CONTROL must be host:port, or several of them separated by commas");
  const tokenFile = text("STOKER_JOIN_TOKEN_FILE");
  const advertise = text("STOKER_ADVERTISE");
  if (advertise !== undefined && !/^https?:$/.test(URL.parse(advertise)?.protocol ?? ""))
    problems.push("STOKER_ADVERTISE must be an origin such as https://10.0.0.7:9100");
  const ingressHost = text("STOKER_INGRESS_HOST") ?? "127.0.0.1";
  const tls = oneOf("STOKER_INGRESS_TLS", ["auto", "on", "off"], "auto");
  const reached = URL.parse(advertise ?? "")?.hostname ?? ingressHost;
  // A data path that begins and ends on this machine crosses no network.
  const isLocal = isLoopbackHost(ingressHost) && isLoopbackHost(reached);
  const ingressTls = control !== "" && (tls === "on" || (tls === "auto" && !isLocal));
  if (localDesired && tls === "on")
    problems.push(
      "STOKER_INGRESS_TLS=on needs a control plane, which gives the certificate: there is none beside STOKER_LOCAL_DESIRED",
    );
  if (!ingressTls && !isLocal && tls !== "off")
    problems.push(
      "the data path listens beyond this machine and cannot speak TLS, because only a control plane gives it a certificate: " +
        "listen on 127.0.0.1 (STOKER_INGRESS_HOST), or set STOKER_INGRESS_TLS=off to serve prompts and answers unencrypted",
    );
  if (!ingressTls && advertise?.startsWith("https:"))
    problems.push(
      `STOKER_ADVERTISE begins with https://, but this data path speaks no TLS: ${tls === "off" ? "leave STOKER_INGRESS_TLS out" : "on this machine alone it does with STOKER_INGRESS_TLS=on"}, or write http://`,
    );
  return { localDesired, dataDir, addresses, tokenFile, advertise, ingressHost, ingressTls, isLocal };
}

export function readConfig(env: Readonly<Record<string, string | undefined>>) {
  const settings = settingsOf(env);
  const { problems, text, number, seconds, oneOf } = settings;
  const { localDesired, dataDir, addresses, tokenFile, advertise, ingressHost, ingressTls, isLocal } =
    readPlaces(settings);
  const blockedNetworks = networksIn(text("STOKER_WEBHOOK_BLOCK") ?? "");
  if (!blockedNetworks)
    problems.push(
      "STOKER_WEBHOOK_BLOCK must be addresses or networks with commas between, such as 192.0.2.7,2001:db8::/32",
    );
  const hfToken = text("HF_TOKEN");
  const stopsInstances = text("STOKER_STOP_INSTANCES") === "1";
  const driver = oneOf("STOKER_DRIVER", drivers, "auto");
  const rentals = readRentalSettings(text, (sentence) => void problems.push(sentence));
  const requiresFirewall = oneOf("STOKER_CONTAINER_FIREWALL", firewalls, "auto") === "required";
  const kubernetes = readKubernetesSettings(settings, dataDir);
  if (driver === "kubernetes") {
    if (rentals.images.size > 0)
      problems.push("STOKER_RENTAL_IMAGES needs Docker: the Kubernetes driver offers no rentals");
    if (requiresFirewall)
      problems.push("STOKER_CONTAINER_FIREWALL=required needs Docker: in a cluster network policies separate Pods");
  }
  const config = {
    /** Undefined with `localDesired`: no session then. */
    control: localDesired
      ? undefined
      : { addresses, tokenFile: tokenFile === undefined ? undefined : resolve(tokenFile) },
    /** A JSON file with a desired state, instead of a session. */
    localDesired,
    dataDir,
    nodeName: text("STOKER_NODE_NAME") ?? hostname(),
    ingressHost,
    /** 0: the last one if it is free, else any. */
    ingressPort: number("STOKER_INGRESS_PORT", 0, 65_535) ?? 0,
    /** Undefined: no traces. */
    tracing: readTracing(text, (problem) => problems.push(problem)),
    /** Acknowledged usage records are kept within these limits, to be sent again after a restore of the database. */
    keep: {
      maxAgeMs: (number("STOKER_KEEP_ACKNOWLEDGED_HOURS", 0, 8_760) ?? 48) * 3_600_000,
      maxBytes: (number("STOKER_KEEP_ACKNOWLEDGED_MB", 0, 1_000_000) ?? 512) * 2 ** 20,
    },
    ingressTls,
    /** The data path leaves this machine unencrypted, as STOKER_INGRESS_TLS=off allows. */
    isPlain: !ingressTls && !isLocal,
    /** Origin of the data path as gateways reach it; by default host and port of the ingress. Of its scheme see announcedOrigin. */
    advertise,
    /** Requests that may wait for one instance; undefined: four times its batch, at least 200. */
    queueLimit: number("STOKER_QUEUE_LIMIT", 0, 100_000),
    metricsHost: text("STOKER_AGENT_METRICS_HOST") ?? "127.0.0.1",
    metricsPort: number("STOKER_AGENT_METRICS_PORT", 0, 65_535) ?? 0,
    /** File with the bearer token of the metrics pages; undefined: none. */
    metricsTokenFile: text("STOKER_AGENT_METRICS_TOKEN_FILE"),
    gpuMetrics: oneOf("STOKER_GPU_METRICS", gpuMetrics, "native"),
    driver,
    /** For the Kubernetes driver. */
    kubernetes,
    modelsDir: resolve(text("STOKER_MODELS_DIR") ?? join(dataDir, "models")),
    runtimeImage: text("STOKER_RUNTIME_IMAGE") ?? "",
    /** Images of engines from elsewhere, by digest; undefined: this host does not run that engine. */
    engineImages: {
      vllm: text("STOKER_VLLM_IMAGE"),
      sglang: text("STOKER_SGLANG_IMAGE"),
      llamacpp: text("STOKER_LLAMACPP_IMAGE"),
    },
    /** Images for GPUs of other makers than NVIDIA. */
    vendorImages: Object.fromEntries(
      gpuVendors
        .filter((vendor) => vendor !== "nvidia" && vendor !== "apple")
        .map((vendor) => {
          const image = (name: string) => text(`STOKER_${name}_IMAGE_${vendor.toUpperCase()}`);
          const own = { stoker: image("RUNTIME"), vllm: image("VLLM"), sglang: image("SGLANG") };
          return [vendor, { ...own, llamacpp: image("LLAMACPP") }];
        }),
    ),
    /** Absolute paths of engine programs for the process driver; undefined: that driver does not run the engine. */
    enginePrograms: {
      vllm: programAt(settings, "STOKER_VLLM_BIN"),
      llamacpp: programAt(settings, "STOKER_LLAMACPP_BIN"),
    },
    /** Script that the process driver runs as the model server. */
    runtimeEntry: resolve(text("STOKER_RUNTIME_ENTRY") ?? join(root, "runtime", "main.ts")),
    /** Images this host runs besides its own runtime's; engines/allowed-image.ts says how they are written. */
    allowedImages: (text("STOKER_ALLOWED_IMAGES") ?? "").split(/[\s,]+/).filter((one) => one !== ""),
    containerSubnet: text("STOKER_CONTAINER_SUBNET"),
    /** Containers of models start only where the agent may set rules between them and this host. */
    requiresFirewall,
    gpus: number("STOKER_GPUS", 0, 256),
    gpuMemoryBytes: number("STOKER_GPU_MEMORY_BYTES", 1, Number.MAX_SAFE_INTEGER),
    hfEndpoint: text("HF_ENDPOINT"),
    /** Customers' URLs of adapters may lead into private networks, by any port and plain http. */
    allowsPrivateUrls: oneOf("STOKER_ADAPTER_URL_ALLOW_PRIVATE", ["0", "1"], "0") === "1",
    /** Networks that customers' URLs must never reach, in CIDR. */
    blockedNetworks: blockedNetworks ?? [],
    hfToken: hfToken === undefined ? undefined : new Secret(hfToken),
    /** The hub is not asked: what is here, or at a neighbour, must do. */
    hfOffline: /^(1|true|yes|on)$/i.test(text("HF_HUB_OFFLINE") ?? ""),
    hfMetadataMs: seconds("HF_HUB_ETAG_TIMEOUT"),
    hfSilenceMs: seconds("HF_HUB_DOWNLOAD_TIMEOUT"),
    /** Maximum bytes of the weights cache; undefined: the disk. */
    modelsQuotaBytes: number("STOKER_MODELS_QUOTA_BYTES", 1, Number.MAX_SAFE_INTEGER),
    pypiIndex: text("PIP_INDEX_URL"),
    /** Read-only folders with weights, looked up before any download. */
    sharedWeights: (text("STOKER_WEIGHTS_SHARED") ?? "").split(":").filter((one) => one !== ""),
    /** Store of s3:// addresses without an endpoint; undefined: Amazon's. */
    weightsS3Endpoint: originsOf(settings, "STOKER_WEIGHTS_S3_ENDPOINT")[0],
    /** Stores and registries of the operator's own network that deployments may name. */
    weightsOrigins: originsOf(settings, "STOKER_WEIGHTS_ORIGINS"),
    modelScopeEndpoint: originsOf(settings, "MODELSCOPE_ENDPOINT")[0],
    backups: readBackupSettings(text, dataDir, (sentence) => problems.push(sentence)),
    rentals,
    /** Accounts may open terminals in their own rented containers and agent instances. */
    allowsTerminals: oneOf("STOKER_TERMINALS", ["0", "1"], "0") === "1",
    logLevel: oneOf("STOKER_LOG_LEVEL", logLevels, "info"),
    stopsWithParent: text("STOKER_STOP_WITH_PARENT") === "1",
    /** Minimum time awake before a model is put to sleep for another one; undefined: by the time that its last wake took. */
    minAwakeMs: seconds("STOKER_MIN_AWAKE_SECONDS", 0),
    stopsInstances,
    // A supervisor that stops the whole machine's Stoker is not kept waiting as long as a rolling restart may take.
    drainMs: number("STOKER_DRAIN_MS", 0, 3_600_000) ?? (stopsInstances ? 8_000 : 30_000),
    // The largest single body is 50 MiB.
    bodyMemoryBytes: (number("STOKER_AGENT_BODY_MEMORY_MIB", 64, 1_048_576) ?? 512) * 1024 * 1024,
    /** Chaos tests only. */
    fault: text("STOKER_FAULT"),
  };
  if (problems.length > 0) throw new ConfigError(problems);
  return Object.freeze(config);
}

/** Origins with commas between. */
function originsOf({ text, problems }: Settings, key: string): readonly string[] {
  const given = (text(key) ?? "").split(",").map((one) => one.trim());
  return given
    .filter((one) => one !== "")
    .flatMap((one) => {
      const url = URL.parse(one);
      if (url && /^https?:$/.test(url.protocol) && url.pathname === "/") return [url.origin];
      problems.push(`${key} must be origins such as https://store.example.com:9000; ${one} is not one`);
      return [];
    });
}

/** Path of a program that must be there when the agent starts; undefined: not set. */
function programAt({ text, problems }: Settings, key: string): string | undefined {
  const path = text(key);
  if (path === undefined) return undefined;
  try {
    accessSync(path, constants.X_OK);
  } catch {
    problems.push(`${key} must be the path of a program; ${path} is none that this user may run`);
  }
  return resolve(path);
}

/** Addresses and networks with commas between, in CIDR; undefined where one of them is none. */
export function networksIn(text: string): readonly string[] | undefined {
  const given = text.split(",").map((entry) => entry.trim());
  const networks = given.filter((entry) => entry !== "").map(inCidr);
  return networks.every(isNetwork) ? networks : undefined;
}

function inCidr(entry: string): string {
  const family = isIP(entry);
  return family === 0 ? entry : `${entry}/${family === 6 ? 128 : 32}`;
}

function isNetwork(entry: string): boolean {
  const [, address = "", bits] = /^([^/]+)\/(\d{1,3})$/.exec(entry) ?? [];
  try {
    new BlockList().addSubnet(address, Number(bits), isIP(address) === 6 ? "ipv6" : "ipv4");
    return true;
  } catch {
    return false;
  }
}

export function readBackupSettings(
  text: (key: string) => string | undefined,
  dataDir: string,
  problem: (sentence: string) => void,
) {
  /** Folder on this host, or on a network file system that every host mounts at the same path. */
  const folder = resolve(text("STOKER_BACKUP_DIR") ?? join(dataDir, "backups"));
  const s3 = readS3Settings(text, "STOKER_BACKUP_S3", problem);
  const credentials = s3?.credentials && {
    accessKeyId: s3.credentials.accessKeyId,
    secretAccessKey: new Secret(s3.credentials.secretAccessKey),
  };
  return { folder, s3: s3 && { ...s3, credentials } };
}

const ownNamespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
const gpuSources = ["resource", "claim"] as const;
const gpuResources = "nvidia=nvidia.com/gpu amd=amd.com/gpu intel=gpu.intel.com/i915 ascend=huawei.com/Ascend910";

function readKubernetesSettings(settings: Settings, dataDir: string) {
  const { problems, text, oneOf } = settings;
  const entries = (text("STOKER_KUBERNETES_GPU_RESOURCES") ?? gpuResources)
    .split(/[\s,]+/)
    .map((one) => one.split("="));
  if (!entries.every(([vendor = "", name = ""]) => (gpuVendors as readonly string[]).includes(vendor) && name !== ""))
    problems.push(`STOKER_KUBERNETES_GPU_RESOURCES must be MAKER=RESOURCE, as in ${JSON.stringify(gpuResources)}`);
  const isClaim = oneOf("STOKER_KUBERNETES_GPUS", gpuSources, "resource") === "claim";
  const deviceClass = text("STOKER_KUBERNETES_DEVICE_CLASS") ?? "gpu.nvidia.com";
  const [claim = "", ...subPath] = (text("STOKER_KUBERNETES_DATA_CLAIM") ?? "").split("/");
  const namespace = text("STOKER_KUBERNETES_NAMESPACE") ?? readIfPresent(ownNamespaceFile)?.trim();
  const node = text("STOKER_NODE_NAME");
  if (text("STOKER_DRIVER") === "kubernetes") {
    if (!namespace)
      problems.push("STOKER_KUBERNETES_NAMESPACE is required outside of a Pod (namespace of model servers)");
    if (!node)
      problems.push("STOKER_NODE_NAME is required with STOKER_DRIVER=kubernetes (name of the node in the cluster)");
  }
  return {
    /** Undefined: the service account of the agent's Pod. */
    kubeconfig: text("STOKER_KUBERNETES_CONFIG"),
    namespace: namespace ?? "",
    node: node ?? "",
    gpus: isClaim
      ? { kind: "claim" as const, deviceClass }
      : { kind: "resource" as const, names: Object.fromEntries(entries) as Readonly<Record<string, string>> },
    /** Claim that holds the agent's folder, and the folder in it; undefined: a folder of the node. */
    data: claim === "" ? undefined : { folder: dataDir, claim, subPath: subPath.join("/") },
    pod: readPodSettings(settings),
  };
}

const textsOf = (value: unknown): value is Readonly<Record<string, string>> =>
  typeof value === "object" && value !== null && Object.values(value).every((one) => typeof one === "string");
const podFields: Readonly<Record<string, (value: unknown) => boolean>> = {
  labels: textsOf,
  annotations: textsOf,
  tolerations: (value) => Array.isArray(value) && value.every((one) => typeof one === "object" && one !== null),
  priorityClassName: (value) => typeof value === "string",
  runtimeClassName: (value) => typeof value === "string",
  schedulerName: (value) => typeof value === "string",
  serviceAccountName: (value) => typeof value === "string",
  imagePullSecrets: (value) => Array.isArray(value) && value.every((one) => typeof one === "string"),
};

/** Parts of Pods that the operator chooses; the API server checks what they hold. */
function readPodSettings({ problems, text }: Settings) {
  const given = parsedObject(text("STOKER_KUBERNETES_POD") ?? "{}");
  if (!given || !Object.entries(given).every(([name, value]) => podFields[name]?.(value)))
    problems.push(`STOKER_KUBERNETES_POD must be a JSON object with fields of ${Object.keys(podFields).join(", ")}`);
  return given ?? {};
}

function parsedObject(json: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(json);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? { ...value } : undefined;
  } catch {
    return undefined;
  }
}

const gib = 1024 ** 3;
/** Mail submission: short-lived rentals could send spam and damage the host's reputation. */
const mailPorts = "25 465 587";
const cidrForm = /^\d{1,3}(\.\d{1,3}){3}(\/\d{1,2})?$/;

function readRentalSettings(text: (key: string) => string | undefined, problem: (sentence: string) => void) {
  const list = (key: string, otherwise = "") => (text(key) ?? otherwise).split(/[\s,]+/).filter((one) => one !== "");
  const images = new Map(
    list("STOKER_RENTAL_IMAGES").map((entry) => {
      const [name = "", reference = name] = entry.split("=");
      return [name, reference] as const;
    }),
  );
  const [, first = "", last = ""] = /^(\d{1,5})-(\d{1,5})$/.exec(text("STOKER_RENTAL_PORTS") ?? "22000-22999") ?? [];
  const ports = { first: Number(first), last: Number(last) };
  if (!(ports.first >= 1 && ports.first <= ports.last && ports.last <= 65_535))
    problem("STOKER_RENTAL_PORTS must be a range of ports such as 22000-22999");
  const [dns, denied] = [list("STOKER_RENTAL_DNS"), list("STOKER_RENTAL_DENY")];
  if (!dns.every((one) => /^[\da-f.:]+$/i.test(one))) problem("STOKER_RENTAL_DNS must be IP addresses");
  if (!denied.every((one) => cidrForm.test(one)))
    problem("STOKER_RENTAL_DENY must be IPv4 networks such as 198.51.100.0/24");
  const portList = list("STOKER_RENTAL_DENY_PORTS", mailPorts);
  const deniedPorts = portList.length === 1 && portList[0] === "none" ? [] : portList.map(Number);
  if (!deniedPorts.every((port) => Number.isInteger(port) && port >= 1 && port <= 65_535))
    problem("STOKER_RENTAL_DENY_PORTS must be TCP ports such as 25 465 587, or none");
  const disk = Number(text("STOKER_RENTAL_DISK_GB") ?? 0);
  if (!(disk >= 0 && disk <= 1_000_000)) problem("STOKER_RENTAL_DISK_GB must be a number of gigabytes");
  const devices = text("STOKER_RENTAL_DEVICES") ?? "nvidia";
  if (devices !== "nvidia" && devices !== "none") problem("STOKER_RENTAL_DEVICES must be nvidia or none");
  return {
    /** Images that customers may rent, by the name they use. Empty: this host offers none. */
    images: images as ReadonlyMap<string, string>,
    /** Networks of rentals are /28s of it. */
    subnet: text("STOKER_RENTAL_SUBNET") ?? "10.232.0.0/16",
    /** SSH is published on a port of this range, both ends included. */
    ports,
    /** Address of this host on which those ports are published. */
    bind: text("STOKER_RENTAL_BIND") ?? "0.0.0.0",
    /** Address at which customers reach them; undefined: the host of the data path. */
    address: text("STOKER_RENTAL_ADDRESS"),
    /** Name servers of rentals: public ones, because private addresses are out of their reach. */
    dns: dns.length > 0 ? dns : ["1.1.1.1", "9.9.9.9"],
    /** IPv4 networks out of reach besides private and link-local ones. */
    denied,
    /** TCP ports that are blocked towards the internet; by default those of mail. */
    deniedPorts,
    /** Limit of the writable root, if the engine's storage supports it; 0: none. */
    diskBytes: Math.floor(disk * gib),
    /** `none` hands no GPU into the container: for tests on machines whose GPUs are not real. */
    devices: devices === "none" ? ("none" as const) : ("nvidia" as const),
  };
}
