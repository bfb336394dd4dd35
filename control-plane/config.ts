// The environment, read once. Every problem is told together.

import { isIP } from "node:net";
import { totalmem } from "node:os";
import { join, resolve } from "node:path";
import { type BlobSettings, readBlobSettings } from "./blob-settings.ts";
import { type MayBePlain, readPlainHosts } from "./plain-hosts.ts";
import { type Retention, readRetention } from "./retention/periods.ts";
import { OperatorError } from "./service-error.ts";

export interface ControlPlaneConfig {
  readonly http: Address;
  /** Metrics; not for the public. */
  readonly admin: Address;
  /** File with the token that the metrics pages require; undefined: none. */
  readonly adminTokenFile: string | undefined;
  readonly rpc: Address;
  readonly databaseUrl: string;
  readonly databaseConnections: number;
  /** How long the start waits for PostgreSQL. */
  readonly databaseWaitMs: number;
  /** Holds kek, pepper and agent.secret; made at the first start. */
  readonly secretsDir: string;
  /** Where the first account's key is written, once. */
  readonly adminKeyFile: string | undefined;
  /** Types of agent instances; undefined: none are offered. */
  readonly agentCatalogFile: string | undefined;
  /** File or URL with more models for the catalogue; undefined: none. */
  readonly modelCatalogue: string | undefined;
  /** Folders of demo models that lie on the hosts, under the same path as here; undefined: the hub has them. */
  readonly demoModelsDir: string | undefined;
  /** Where the ports are written after listening, for a supervisor. */
  readonly portsFile: string | undefined;
  /** Hosts on other machines that may be reached over plain HTTP. */
  readonly mayBePlain: MayBePlain;
  /** Life of a host's certificate; renewed at two thirds of it. */
  readonly nodeCertificateMs: number;
  /** Certificate chain and private key of the public port, in PEM; undefined: plain HTTP. */
  readonly tls: { readonly certFile: string; readonly keyFile: string } | undefined;
  /** Connections of all clients to the public port. */
  readonly maxConnections: number;
  /** Per address, for clients without a valid credential. */
  readonly strangers: { readonly requestsPerSecond: number; readonly connections: number };
  readonly logLevel: string;
  /** Addresses and networks of proxies whose forwarded client address, scheme and host are believed. */
  readonly trustedProxies: readonly string[];
  /** Origins whose pages may read responses, such as `https://app.example.com`; `*`: any. Empty: none. */
  readonly corsOrigins: readonly string[];
  /** Whether anybody may make an account by `POST /v1/auth/sign-up`. */
  readonly isSignUpOpen: boolean;
  readonly stopsWithParent: boolean;
  /** 1, or less in tests: the host clocks run that much faster. */
  readonly hostClockScale: number;
  /** The same for autoscaling and sleep. */
  readonly scalingClockScale: number;
  /** The same for slices of budgets. */
  readonly sliceClockScale: number;
  /** The same for whoever runs a batch. */
  readonly batchClockScale: number;
  /** How long rows that are done with stay, by kind; in milliseconds. */
  readonly retention: Retention;
  readonly drainMs: number;
  /** Of this process, for bodies of requests and for answers that are kept. */
  readonly memory: { readonly bodiesBytes: number; readonly answersBytes: number };
  readonly files: BlobSettings & {
    /** Of all files of an account together. */
    readonly quotaBytes: number;
  };
  /** Of accounts without a record of their own. */
  readonly quotas: {
    readonly rates: { readonly concurrent: number; readonly tokensPerMinute: number };
    readonly gpus: { readonly perType: number };
  };
  /** LoRA adapters: what they cost more than their base, and how long one stays loaded that nobody uses. */
  readonly adapters: {
    readonly percent: number;
    readonly idleMs: number;
    /** Customers' URLs of adapters may lead into private networks, by any port and plain http. */
    readonly allowsPrivateUrls: boolean;
  };
  /** Messages between replicas go by Redis; without one each keeps to itself and to the database. */
  readonly redisUrl: string | undefined;
  /** Under which clients reach this control plane; undefined: as each request says. */
  readonly publicUrl: string | undefined;
  /** Below which each dashboard of an agent instance has an origin of its own, such as `https://*.dash.example.com`. */
  readonly dashboardUrl: string | undefined;
  /** The model hub, asked what a repository holds before it is deployed; undefined: it is not asked. */
  readonly hubEndpoint: string | undefined;
  /** Speaks where a request names no model; undefined: one that is served. */
  readonly speechModel: string | undefined;
  /** Model for moderation requests without one; undefined: a served classifier. */
  readonly moderationModel: string | undefined;
  readonly webhooks: {
    /** Loopback and private networks, any port and plain http. */
    readonly allowsPrivate: boolean;
    /** Addresses and networks that are never called. */
    readonly blocked: readonly string[];
    /** Of the answers that calls of one account keep. */
    readonly maxKeptBytes: number;
    /** 1, or less in tests: the schedule runs that much faster, claims twice as fast at most. */
    readonly clockScale: number;
  };
  /** Without it the operator takes the money and credits it. */
  readonly stripe:
    | { readonly secretKey: string; readonly webhookSecret: string; readonly apiBase: string | undefined }
    | undefined;
}

export interface Address {
  readonly host: string;
  /** 0: any free one. */
  readonly port: number;
}

type Env = Readonly<Record<string, string | undefined>>;

/** All that is wrong with the environment, one sentence each. */
export class ConfigRefused extends OperatorError {
  override readonly name = "ConfigRefused";
}

const levels = ["trace", "debug", "info", "warn", "error", "fatal", "silent"];

/** Throws ConfigRefused. */
export function readConfig(env: Env): ControlPlaneConfig {
  const problems: string[] = [];
  const text = (key: string) => (env[key] === "" ? undefined : env[key]);
  const number = (key: string, fallback: number, min: number, max: number): number => {
    const value = Number(text(key) ?? fallback);
    if (Number.isFinite(value) && value >= min && value <= max) return value;
    problems.push(`${key} must be a number from ${min} to ${max}, not ${JSON.stringify(env[key])}.`);
    return fallback;
  };
  const whole = (key: string, fallback: number, min: number, max: number) => {
    const value = number(key, fallback, min, max);
    if (!Number.isInteger(value)) problems.push(`${key} must be a whole number.`);
    return value;
  };
  const port = (key: string, fallback: number) => whole(key, fallback, 0, 65_535);
  const path = (key: string) => {
    const value = text(key);
    return value === undefined ? undefined : resolve(value);
  };

  const databaseUrl = text("DATABASE_URL") ?? "";
  const database = URL.parse(databaseUrl);
  if (!databaseUrl) problems.push("DATABASE_URL is required, such as postgresql://user@127.0.0.1:5432/stoker.");
  else if (!database || !/^postgres(ql)?:$/.test(database.protocol))
    problems.push("DATABASE_URL must begin with postgresql://.");
  const logLevel = text("STOKER_LOG_LEVEL") ?? "info";
  if (!levels.includes(logLevel)) problems.push(`STOKER_LOG_LEVEL must be one of ${levels.join(", ")}.`);
  const publicUrl = text("STOKER_PUBLIC_URL")?.replace(/\/+$/, "");
  if (publicUrl !== undefined && !/^https?:$/.test(URL.parse(publicUrl)?.protocol ?? ""))
    problems.push("STOKER_PUBLIC_URL must begin with http:// or https://, such as https://stoker.example.com.");
  const trustedProxies = (text("STOKER_TRUSTED_PROXIES") ?? "").split(",").map((entry) => entry.trim());
  for (const entry of trustedProxies) {
    if (entry !== "" && !isNetwork(entry))
      problems.push(
        `STOKER_TRUSTED_PROXIES must be addresses or networks with commas between, such as 10.0.0.5,192.168.0.0/16; ` +
          `${JSON.stringify(entry)} is none.`,
      );
  }
  const corsOrigins = (text("STOKER_CORS_ORIGINS") ?? "").split(/[\s,]+/).filter((entry) => entry !== "");
  for (const entry of corsOrigins) {
    if (entry !== "*" && (entry.includes("*") || URL.parse(entry)?.origin !== entry))
      problems.push(
        "STOKER_CORS_ORIGINS must be origins separated by commas, such as https://app.example.com,http://localhost:3000, or *; " +
          `${JSON.stringify(entry)} is not an origin.`,
      );
  }
  const blocked = (text("STOKER_WEBHOOK_BLOCK") ?? "").split(",").map((entry) => entry.trim());
  for (const entry of blocked) {
    if (entry !== "" && !isNetwork(entry))
      problems.push(
        `STOKER_WEBHOOK_BLOCK must be addresses or networks with commas between, such as 192.0.2.7,2001:db8::/32; ` +
          `${JSON.stringify(entry)} is none.`,
      );
  }
  const allowPrivate = text("STOKER_WEBHOOK_ALLOW_PRIVATE") ?? "0";
  const allowPrivateUrls = text("STOKER_ADAPTER_URL_ALLOW_PRIVATE") ?? "0";
  if (allowPrivateUrls !== "0" && allowPrivateUrls !== "1")
    problems.push("STOKER_ADAPTER_URL_ALLOW_PRIVATE must be 0 or 1.");
  if (allowPrivate !== "0" && allowPrivate !== "1") problems.push("STOKER_WEBHOOK_ALLOW_PRIVATE must be 0 or 1.");
  const signUp = text("STOKER_SIGN_UP") ?? "closed";
  if (signUp !== "open" && signUp !== "closed") problems.push("STOKER_SIGN_UP must be open or closed.");
  if ((text("STOKER_DATA_PATH_TLS") ?? "required") !== "required")
    problems.push(
      "STOKER_DATA_PATH_TLS must be required, which is the default. Name hosts that speak plain HTTP in STOKER_DATA_PATH_PLAIN.",
    );
  const plainHosts = readPlainHosts(
    (text("STOKER_DATA_PATH_PLAIN") ?? "").split(/[\s,]+/).filter((entry) => entry !== ""),
  );
  if (!plainHosts)
    problems.push(
      "STOKER_DATA_PATH_PLAIN must be addresses, networks and host names, such as 10.0.0.7,10.1.0.0/16,gpu-1.",
    );
  const host = text("STOKER_HOST") ?? "127.0.0.1";
  const [certFile, keyFile] = [path("STOKER_TLS_CERT"), path("STOKER_TLS_KEY")];
  if ((certFile === undefined) !== (keyFile === undefined))
    problems.push("STOKER_TLS_CERT and STOKER_TLS_KEY belong together: set both, or neither.");

  const { retention, problems: ofRetention } = readRetention(text("STOKER_RETENTION"));
  problems.push(...ofRetention);
  const redisUrl = text("REDIS_URL");
  if (redisUrl !== undefined && !/^rediss?:$/.test(URL.parse(redisUrl)?.protocol ?? ""))
    problems.push("REDIS_URL must begin with redis:// or rediss://.");

  const secretsDir = path("STOKER_SECRETS_DIR") ?? resolve(join(".stoker", "secrets"));
  const config: ControlPlaneConfig = {
    http: { host, port: port("STOKER_PORT", 8080) },
    admin: { host: text("STOKER_ADMIN_HOST") ?? "127.0.0.1", port: port("STOKER_ADMIN_PORT", 0) },
    adminTokenFile: path("STOKER_METRICS_TOKEN_FILE"),
    rpc: { host: text("STOKER_RPC_HOST") ?? "127.0.0.1", port: port("STOKER_RPC_PORT", 0) },
    databaseUrl,
    databaseConnections: number("STOKER_DATABASE_CONNECTIONS", 16, 4, 500),
    databaseWaitMs: number("STOKER_DATABASE_WAIT_SECONDS", 30, 0, 3_600) * 1000,
    secretsDir,
    adminKeyFile: path("STOKER_ADMIN_KEY_FILE"),
    agentCatalogFile: path("STOKER_AGENT_CATALOG"),
    modelCatalogue: /^https?:/.test(text("STOKER_MODEL_CATALOGUE") ?? "")
      ? text("STOKER_MODEL_CATALOGUE")
      : path("STOKER_MODEL_CATALOGUE"),
    demoModelsDir: path("STOKER_DEMO_MODELS"),
    portsFile: path("STOKER_PORTS_FILE"),
    mayBePlain: plainHosts ?? (() => false),
    nodeCertificateMs: number("STOKER_NODE_CERTIFICATE_HOURS", 72, 0.001, 8_760) * 3_600_000,
    tls: certFile !== undefined && keyFile !== undefined ? { certFile, keyFile } : undefined,
    maxConnections: whole("STOKER_MAX_CONNECTIONS", 20_000, 10, 10_000_000),
    strangers: {
      requestsPerSecond: number("STOKER_ANONYMOUS_RATE", 50, 0, 1_000_000),
      connections: whole("STOKER_ANONYMOUS_CONNECTIONS", 256, 1, 10_000_000),
    },
    logLevel,
    trustedProxies: trustedProxies.filter((entry) => entry !== ""),
    corsOrigins,
    isSignUpOpen: signUp === "open",
    stopsWithParent: text("STOKER_STOP_WITH_PARENT") === "1",
    hostClockScale: number("STOKER_HOST_CLOCKS", 1, 0.001, 1),
    scalingClockScale: number("STOKER_SCALING_CLOCKS", 1, 0.001, 1),
    batchClockScale: number("STOKER_BATCH_CLOCKS", 1, 0.001, 1),
    sliceClockScale: number("STOKER_SLICE_CLOCKS", 1, 0.001, 1),
    retention,
    drainMs: 30_000,
    memory: {
      bodiesBytes: number("STOKER_BODY_MEMORY_MIB", memoryShareMib(), 8, 1_048_576) * mib,
      answersBytes: number("STOKER_ANSWER_MEMORY_MIB", memoryShareMib(), 8, 1_048_576) * mib,
    },
    files: {
      ...readBlobSettings(text, secretsDir, (sentence) => problems.push(sentence)),
      quotaBytes: number("STOKER_FILE_QUOTA_GIB", 10, 0.001, 1_000_000) * 1024 ** 3,
    },
    quotas: {
      rates: {
        concurrent: whole("STOKER_RATE_LIMIT", 200, 1, 1_000_000),
        tokensPerMinute: whole("STOKER_TPM_LIMIT", 5_000_000, 1, 1e12),
      },
      gpus: { perType: whole("STOKER_DEFAULT_GPU_LIMIT", 8, 0, 1_000_000) },
    },
    adapters: {
      percent: whole("STOKER_LORA_SURCHARGE_PERCENT", 50, 0, 10_000),
      idleMs: number("STOKER_LORA_IDLE_SECONDS", 3_600, 1, 31_536_000) * 1000,
      allowsPrivateUrls: allowPrivateUrls === "1",
    },
    redisUrl,
    publicUrl,
    dashboardUrl: readDashboardUrl(
      text("STOKER_DASHBOARD_URL"),
      { host, publicUrl, hasProxy: trustedProxies.some((entry) => entry !== "") },
      problems,
    ),
    hubEndpoint: /^(1|true|yes|on)$/i.test(text("HF_HUB_OFFLINE") ?? "")
      ? undefined
      : (text("HF_ENDPOINT") ?? "https://huggingface.co"),
    speechModel: text("STOKER_SPEECH_MODEL"),
    moderationModel: text("STOKER_MODERATION_MODEL"),
    webhooks: {
      allowsPrivate: allowPrivate === "1",
      blocked: blocked.filter((entry) => entry !== ""),
      maxKeptBytes: number("STOKER_WEBHOOK_KEPT_GIB", 2, 0.001, 1_000_000) * 1024 ** 3,
      clockScale: number("STOKER_WEBHOOK_CLOCKS", 1, 0.001, 1),
    },
    stripe: readStripe(text, problems),
  };
  if (problems.length > 0) throw new ConfigRefused(problems.join("\n"));
  return Object.freeze(config);
}

const mib = 1024 ** 2;

/** An eighth of the memory that this process may use, as its control group or the machine says; bodies are read into copies. */
function memoryShareMib(): number {
  const allowed = process.constrainedMemory();
  const bytes = allowed > 0 ? Math.min(allowed, totalmem()) : totalmem();
  return Math.min(1024, Math.max(64, Math.floor(bytes / 8 / mib)));
}

function isNetwork(entry: string): boolean {
  const [address = "", bits, ...rest] = entry.split("/");
  const most = isIP(address) === 6 ? 128 : 32;
  if (isIP(address) === 0 || rest.length > 0) return false;
  // Of length 0 everybody would be a proxy, and could claim any address.
  return bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) >= 1 && Number(bits) <= most);
}

/** By default names of this machine, where nobody else reaches this control plane. */
function readDashboardUrl(
  given: string | undefined,
  {
    host,
    publicUrl,
    hasProxy,
  }: { readonly host: string; readonly publicUrl: string | undefined; readonly hasProxy: boolean },
  problems: string[],
): string | undefined {
  const isLoopback = host === "localhost" || host === "::1" || /^127(\.\d+){3}$/.test(host);
  if (given === undefined) return isLoopback && publicUrl === undefined && !hasProxy ? "http://*.localhost" : undefined;
  const found = /^https?:\/\/\*\.((?!-)[a-z\d-]+(?:\.[a-z\d-]+)*)(?::\d{1,5})?\/?$/i.exec(given);
  if (!found || !URL.canParse(given.replace("*.", ""))) {
    problems.push("STOKER_DASHBOARD_URL must be like https://*.dash.example.com: each dashboard has a name for the *.");
    return undefined;
  }
  const domain = (found[1] as string).toLowerCase();
  const own = publicUrl === undefined ? "" : (URL.parse(publicUrl)?.hostname ?? "");
  if (own === domain || own.endsWith(`.${domain}`))
    problems.push("STOKER_DASHBOARD_URL must not cover the host of STOKER_PUBLIC_URL: dashboards are foreign content.");
  return given;
}

function readStripe(text: (key: string) => string | undefined, problems: string[]): ControlPlaneConfig["stripe"] {
  const secretKey = text("STRIPE_SECRET_KEY");
  const webhookSecret = text("STRIPE_WEBHOOK_SECRET");
  const apiBase = text("STRIPE_API_BASE");
  if (secretKey === undefined && webhookSecret === undefined) return undefined;
  if (secretKey === undefined || webhookSecret === undefined)
    problems.push("STRIPE_SECRET_KEY and STRIPE_WEBHOOK_SECRET belong together: set both, or neither.");
  if (apiBase !== undefined && !URL.canParse(apiBase)) problems.push("STRIPE_API_BASE must be a URL.");
  return { secretKey: secretKey ?? "", webhookSecret: webhookSecret ?? "", apiBase };
}
