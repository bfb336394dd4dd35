// Environment of the control plane -> one frozen object. Every problem is reported at once.

import { isIP } from "node:net";
import { totalmem } from "node:os";
import { delimiter, dirname, join, resolve } from "node:path";
import { type ApiFormat, formatPaths } from "../proto/api-formats.ts";
import { readS3Settings } from "../proto/s3-settings.ts";
import { readTracing } from "../proto/tracing-settings.ts";
import { readPlainHosts } from "./plain-hosts.ts";
import { readRetention } from "./retention/periods.ts";
import { OperatorError } from "./service-error.ts";

export type ControlPlaneConfig = ReturnType<typeof readConfig>;

export interface Address {
  readonly host: string;
  /** 0: any free port. */
  readonly port: number;
}

type Env = Readonly<Record<string, string | undefined>>;

/** Every problem of the environment, one sentence each. */
export class ConfigRefused extends OperatorError {
  override readonly name = "ConfigRefused";
}

const logLevels = ["trace", "debug", "info", "warn", "error", "fatal", "silent"];

type Settings = ReturnType<typeof settingsOf>;

/** Reads single settings and collects their problems. */
function settingsOf(env: Env) {
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
  const path = (key: string) => {
    const value = text(key);
    return value === undefined ? undefined : resolve(value);
  };
  const paths = (key: string): readonly string[] =>
    (text(key) ?? "")
      .split(delimiter)
      .filter((folder) => folder !== "")
      .map((folder) => resolve(folder));
  const oneOf = (key: string, values: readonly string[], fallback: string): string => {
    const value = text(key) ?? fallback;
    if (!values.includes(value)) problems.push(`${key} must be ${values.slice(0, -1).join(", ")} or ${values.at(-1)}.`);
    return value;
  };
  const url = (key: string, schemes: readonly string[]) => {
    const value = text(key);
    if (value !== undefined && !schemes.includes(`${URL.parse(value)?.protocol}//`))
      problems.push(`${key} must begin with ${schemes.join(" or ")}.`);
    return value;
  };
  /** Entries between `separator`. `what` names what they must be. */
  const list = (key: string, separator: RegExp, isValid: (entry: string) => boolean, what: string) => {
    const given = (text(key) ?? "").split(separator).map((entry) => entry.trim());
    const entries = given.filter((entry) => entry !== "");
    for (const entry of entries)
      if (!isValid(entry)) problems.push(`${key} must be ${what}; ${JSON.stringify(entry)} is invalid.`);
    return entries;
  };
  const networks = (key: string, example: string) =>
    list(key, /,/, isNetwork, `addresses or networks separated by commas, such as ${example}`);
  return { problems, text, number, whole, path, paths, oneOf, url, list, networks };
}

/** Throws ConfigRefused. */
export function readConfig(env: Env) {
  const settings = settingsOf(env);
  const { problems, text, number, whole, path, paths, oneOf, url } = settings;
  const secretsDir = path("STOKER_SECRETS_DIR") ?? resolve(join(".stoker", "secrets"));
  const catalogue = text("STOKER_MODEL_CATALOGUE");
  const workers = readWorkers(settings);
  const config = {
    databaseUrl: readDatabaseUrl(settings),
    /** Read replica for reports; undefined: they use the primary. */
    databaseReplica: readDatabaseReplica(settings),
    ...readListeners(settings, workers.share),
    /** Connections of this process. */
    databaseConnections: Math.max(4, Math.floor(workers.share(number("STOKER_DATABASE_CONNECTIONS", 16, 4, 500)))),
    /** Maximum time that the start waits for PostgreSQL. */
    databaseWaitMs: number("STOKER_DATABASE_WAIT_SECONDS", 30, 0, 3_600) * 1000,
    /** Carries messages between replicas. Without it each replica uses only its memory and the database. */
    redisUrl: url("REDIS_URL", ["redis://", "rediss://"]),
    /** Folder of kek, pepper and agent.secret, which are created at the first start. */
    secretsDir,
    /** File that receives the first account's key, once. */
    adminKeyFile: path("STOKER_ADMIN_KEY_FILE"),
    /** File that receives the permanent join token of agents. */
    agentTokenFile: path("STOKER_AGENT_TOKEN_FILE") ?? join(secretsDir, "agent.token"),
    /** Types of agent instances; undefined: none. */
    agentCatalogFile: path("STOKER_AGENT_CATALOG"),
    /** File or URL with more models for the catalogue; undefined: none. */
    modelCatalogue: /^https?:/.test(catalogue ?? "") ? catalogue : path("STOKER_MODEL_CATALOGUE"),
    /** File with more GPU types; undefined: none. */
    gpuTypes: path("STOKER_GPU_TYPES"),
    /** Folders of demo models, at the same paths on every host, separated as in PATH; empty: use the hub. */
    demoModelsDirs: paths("STOKER_DEMO_MODELS"),
    /** File that receives the ports after listening, for a supervisor. */
    portsFile: path("STOKER_PORTS_FILE"),
    mayBePlain: readPlainPaths(settings),
    /** Issuers of workload identities that may use plain HTTP and private addresses. */
    plainIssuers: readPlainIssuers(settings),
    /** Validity of a host's certificate, which is renewed after two thirds of it. */
    nodeCertificateMs: number("STOKER_NODE_CERTIFICATE_HOURS", 72, 0.001, 8_760) * 3_600_000,
    logLevel: oneOf("STOKER_LOG_LEVEL", logLevels, "info"),
    /** True: anyone may create an account by `POST /v1/auth/sign-up`. */
    isSignUpOpen: oneOf("STOKER_SIGN_UP", ["open", "closed"], "closed") === "open",
    workers,
    /** Undefined: no traces. */
    tracing: readTracing(text, (problem) => problems.push(`${problem}.`)),
    stopsWithParent: text("STOKER_STOP_WITH_PARENT") === "1",
    /** 1, or less in tests: host leases are shorter by this factor. */
    hostClockScale: number("STOKER_HOST_CLOCKS", 1, 0.001, 1),
    fault: text("STOKER_FAULT"),
    /** The same for autoscaling and sleep. */
    scalingClockScale: number("STOKER_SCALING_CLOCKS", 1, 0.001, 1),
    /** Default of sleep_after_seconds of new deployments; 0: their instances never sleep. */
    sleepAfterSeconds: number("STOKER_SLEEP_AFTER_SECONDS", 0, 0, 2_592_000),
    /** The same for batches. */
    batchClockScale: number("STOKER_BATCH_CLOCKS", 1, 0.001, 1),
    /** The same for slices of budgets. */
    sliceClockScale: number("STOKER_SLICE_CLOCKS", 1, 0.001, 1),
    /** How long finished rows are kept, by kind; in milliseconds. */
    retention: readRetentionPeriods(settings),
    drainMs: 30_000,
    /** Time after a stop signal in which new requests are accepted, but this control plane is not ready. */
    stopDelayMs: number("STOKER_STOP_DELAY_SECONDS", 0, 0, 300) * 1000,
    /** Memory budgets of this process: request bodies, and buffered responses. */
    memory: {
      bodiesBytes: workers.share(number("STOKER_BODY_MEMORY_MIB", memoryShareMib(), 8, 1_048_576) * mib),
      answersBytes: workers.share(number("STOKER_ANSWER_MEMORY_MIB", memoryShareMib(), 8, 1_048_576) * mib),
    },
    files: {
      /** On this machine, or on a network file system that all control planes mount at the same path. */
      folder: path("STOKER_FILES_DIR") ?? resolve(dirname(secretsDir), "files"),
      /** Used instead of the folder. */
      s3: readS3Settings(text, "STOKER_FILES_S3", (problem) => problems.push(`${problem}.`)),
      /** Maximum bytes of an account's files together. */
      quotaBytes: number("STOKER_FILE_QUOTA_GIB", 10, 0.001, 1_000_000) * gib,
    },
    /** Limits of accounts without their own. */
    quotas: {
      rates: {
        concurrent: whole("STOKER_RATE_LIMIT", 200, 1, 1_000_000),
        tokensPerMinute: whole("STOKER_TPM_LIMIT", 5_000_000, 1, 1e12),
        weight: 1,
      },
      gpus: { perType: whole("STOKER_DEFAULT_GPU_LIMIT", 8, 0, 1_000_000) },
    },
    /** LoRA adapters. */
    adapters: {
      /** Surcharge on the price of the base model. */
      percent: whole("STOKER_LORA_SURCHARGE_PERCENT", 50, 0, 10_000),
      /** Time after which an unused adapter is unloaded. */
      idleMs: number("STOKER_LORA_IDLE_SECONDS", 3_600, 1, 31_536_000) * 1000,
      /** True: customers' URLs of adapters may use private networks, any port and plain HTTP. */
      allowsPrivateUrls: oneOf("STOKER_ADAPTER_URL_ALLOW_PRIVATE", ["0", "1"], "0") === "1",
    },
    /** Model hub that describes a repository before it is deployed; undefined: not used. */
    hubEndpoint: /^(1|true|yes|on)$/i.test(text("HF_HUB_OFFLINE") ?? "")
      ? undefined
      : (text("HF_ENDPOINT") ?? "https://huggingface.co"),
    /** Model for speech requests without one; undefined: any served model. */
    speechModel: text("STOKER_SPEECH_MODEL"),
    /** Model for moderation requests without one; undefined: a served classifier. */
    moderationModel: text("STOKER_MODERATION_MODEL"),
    /** Formats in which requests may go to a model server that speaks them; undefined: all. */
    passedFormats: readPassedFormats(settings),
    webhooks: {
      /** True: URLs may use loopback and private networks, any port and plain HTTP. */
      allowsPrivate: oneOf("STOKER_WEBHOOK_ALLOW_PRIVATE", ["0", "1"], "0") === "1",
      /** Addresses and networks that are never called. */
      blocked: settings.networks("STOKER_WEBHOOK_BLOCK", "192.0.2.7,2001:db8::/32"),
      /** Maximum bytes of an account's stored responses. */
      maxKeptBytes: number("STOKER_WEBHOOK_KEPT_GIB", 2, 0.001, 1_000_000) * gib,
      /** 1, or less in tests: the schedule is shorter by this factor, claims by at most half. */
      clockScale: number("STOKER_WEBHOOK_CLOCKS", 1, 0.001, 1),
    },
    /** Receivers of the audit log. */
    audit: readAuditReceivers(settings),
    /** Lines of the seller on invoices, the name first; empty: none is named. */
    invoiceSeller: (text("STOKER_INVOICE_SELLER") ?? "")
      .split(";")
      .map((line) => line.trim())
      .filter((line) => line !== ""),
    /** Payment provider; undefined: the operator receives payments and credits accounts. */
    stripe: readStripe(settings),
    /** Mail server; undefined: no mails are sent. */
    smtp: readSmtp(settings),
  };
  if (problems.length > 0) throw new ConfigRefused(problems.join("\n"));
  return Object.freeze(config);
}

function readPassedFormats({ text, list }: Settings): readonly ApiFormat[] | undefined {
  const key = "STOKER_PASSED_FORMATS";
  const given = text(key);
  if (given === undefined) return undefined;
  if (given === "none") return [];
  const isFormat = (entry: string) => Object.hasOwn(formatPaths, entry);
  return list(key, /,/, isFormat, "none, or responses and messages separated by commas") as readonly ApiFormat[];
}

const maxWorkers = 64;

/** Processes of this control plane that share its public port. */
function readWorkers({ text, whole }: Settings) {
  const count = whole("STOKER_WORKERS", 1, 1, maxWorkers);
  return {
    count,
    /** Number of this process, from 1; undefined: the parent of the workers, or the only process. The parent sets it. */
    own: text("STOKER_WORKER") === undefined ? undefined : whole("STOKER_WORKER", 1, 1, maxWorkers),
    /** Part of one worker in a limit of the whole control plane. */
    share: (all: number) => all / count,
  };
}

/** Addresses on which the process listens, and how clients reach them. */
function readListeners(settings: Settings, share: (all: number) => number) {
  const { problems, text, number, whole, path, url, list, networks } = settings;
  const port = (key: string, fallback: number) => whole(key, fallback, 0, 65_535);
  const host = text("STOKER_HOST") ?? "127.0.0.1";
  const [certFile, keyFile] = [path("STOKER_TLS_CERT"), path("STOKER_TLS_KEY")];
  if ((certFile === undefined) !== (keyFile === undefined))
    problems.push("STOKER_TLS_CERT and STOKER_TLS_KEY belong together: set both, or neither.");
  const publicUrl = url("STOKER_PUBLIC_URL", ["https://", "http://"])?.replace(/\/+$/, "");
  const trustedProxies = networks("STOKER_TRUSTED_PROXIES", "10.0.0.5,192.168.0.0/16");
  return {
    http: { host, port: port("STOKER_PORT", 8080) },
    /** Metrics, not for the public. */
    admin: { host: text("STOKER_ADMIN_HOST") ?? "127.0.0.1", port: port("STOKER_ADMIN_PORT", 0) },
    /** File with the token that the metrics pages require; undefined: no token. */
    adminTokenFile: path("STOKER_METRICS_TOKEN_FILE"),
    rpc: { host: text("STOKER_RPC_HOST") ?? "127.0.0.1", port: port("STOKER_RPC_PORT", 0) },
    /** Certificate chain and private key of the public port, in PEM; undefined: plain HTTP. */
    tls: certFile !== undefined && keyFile !== undefined ? { certFile, keyFile } : undefined,
    /** Maximum connections of all clients to the public port. */
    maxConnections: Math.ceil(share(whole("STOKER_MAX_CONNECTIONS", 20_000, 10, 10_000_000))),
    /** Limits per address for clients without a valid credential. */
    anonymous: {
      requestsPerSecond: share(number("STOKER_ANONYMOUS_RATE", 50, 0, 1_000_000)),
      connections: Math.ceil(share(whole("STOKER_ANONYMOUS_CONNECTIONS", 256, 1, 10_000_000))),
    },
    /** Addresses and networks of proxies whose forwarded client address, scheme and host are used. */
    trustedProxies,
    /** Origins whose pages may read responses, such as `https://app.example.com`; `*`: any. Empty: none. */
    corsOrigins: list(
      "STOKER_CORS_ORIGINS",
      /[\s,]+/,
      (entry) => entry === "*" || (!entry.includes("*") && URL.parse(entry)?.origin === entry),
      "origins separated by commas, such as https://app.example.com,http://localhost:3000, or *",
    ),
    /** URL at which clients reach this control plane; undefined: as each request states. */
    publicUrl,
    /** URL below which each dashboard of an agent instance has its own origin, such as `https://*.dash.example.com`. */
    dashboardUrl: readDashboardUrl(settings, { host, publicUrl, hasProxy: trustedProxies.length > 0 }),
  };
}

function readDatabaseUrl({ problems, url }: Settings): string {
  const value = url("DATABASE_URL", ["postgresql://", "postgres://"]);
  if (value === undefined) problems.push("DATABASE_URL is required, such as postgresql://user@127.0.0.1:5432/stoker.");
  return value ?? "";
}

function readDatabaseReplica({ number, url }: Settings) {
  const address = url("DATABASE_REPLICA_URL", ["postgresql://", "postgres://"]);
  // The lag is known from rows that control planes write every ten seconds.
  const maxLagMs = number("STOKER_DATABASE_REPLICA_LAG_SECONDS", 30, 15, 3_600) * 1000;
  return address === undefined ? undefined : { url: address, maxLagMs };
}

/** Returns which hosts on other machines may be reached over plain HTTP. */
function readPlainPaths({ problems, text }: Settings) {
  if ((text("STOKER_DATA_PATH_TLS") ?? "required") !== "required")
    problems.push(
      "STOKER_DATA_PATH_TLS must be required, which is the default. Name hosts that use plain HTTP in STOKER_DATA_PATH_PLAIN.",
    );
  const names = entriesIn(text("STOKER_DATA_PATH_PLAIN"));
  const mayBePlain = readPlainHosts(names);
  if (!mayBePlain)
    problems.push(
      "STOKER_DATA_PATH_PLAIN must be addresses, networks and host names, such as 10.0.0.7,10.1.0.0/16,gpu-1.",
    );
  return mayBePlain ?? (() => false);
}

function readPlainIssuers({ problems, text }: Settings): readonly string[] {
  const issuers = entriesIn(text("STOKER_WORKLOAD_ISSUERS_PLAIN"));
  const isIssuer = (entry: string) => {
    const { protocol = "", search, username } = URL.parse(entry) ?? {};
    return /^https?:$/.test(protocol) && search === "" && username === "" && !entry.includes("#");
  };
  if (!issuers.every(isIssuer))
    problems.push(
      "STOKER_WORKLOAD_ISSUERS_PLAIN must be issuers' URLs exactly as in their tokens, such as https://kubernetes.default.svc.",
    );
  return issuers;
}

const entriesIn = (list = ""): readonly string[] => list.split(/[\s,]+/).filter((entry) => entry !== "");

function readRetentionPeriods({ problems, text }: Settings) {
  const { retention, problems: found } = readRetention(text("STOKER_RETENTION"));
  problems.push(...found);
  return retention;
}

const mib = 1024 ** 2;
const gib = 1024 ** 3;

/** Returns an eighth of the memory that the control group or the machine permits; bodies are read into copies. */
function memoryShareMib(): number {
  const allowed = process.constrainedMemory();
  const bytes = allowed > 0 ? Math.min(allowed, totalmem()) : totalmem();
  return Math.min(1024, Math.max(64, Math.floor(bytes / 8 / mib)));
}

function isNetwork(entry: string): boolean {
  const [address = "", bits, ...rest] = entry.split("/");
  const maxBits = isIP(address) === 6 ? 128 : 32;
  if (isIP(address) === 0 || rest.length > 0) return false;
  // With length 0 every client would be a trusted proxy and could claim any address.
  return bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) >= 1 && Number(bits) <= maxBits);
}

/** Default: names of this machine, if it is the only one that reaches this control plane. */
function readDashboardUrl(
  { problems, text }: Settings,
  client: { readonly host: string; readonly publicUrl: string | undefined; readonly hasProxy: boolean },
): string | undefined {
  const { host, publicUrl, hasProxy } = client;
  const given = text("STOKER_DASHBOARD_URL");
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

function readAuditReceivers({ problems, text, url }: Settings) {
  const to = url("STOKER_AUDIT_WEBHOOK_URL", ["https://", "http://"]);
  const secret = text("STOKER_AUDIT_WEBHOOK_SECRET");
  if ((to === undefined) !== (secret === undefined))
    problems.push("STOKER_AUDIT_WEBHOOK_URL and STOKER_AUDIT_WEBHOOK_SECRET belong together: set both, or neither.");
  if (secret !== undefined && !/^whsec_[A-Za-z0-9+/]{32,}={0,2}$/.test(secret))
    problems.push("STOKER_AUDIT_WEBHOOK_SECRET must be whsec_ and at least 24 bytes in base64.");
  return {
    webhook: to !== undefined && secret !== undefined ? { url: to, secret } : undefined,
    s3: readS3Settings(text, "STOKER_AUDIT_S3", (problem) => problems.push(`${problem}.`)),
  };
}

function readSmtp({ problems, text }: Settings) {
  const url = text("STOKER_SMTP_URL");
  const from = text("STOKER_MAIL_FROM");
  if (url === undefined && from === undefined) return undefined;
  if (url === undefined || from === undefined)
    problems.push("STOKER_SMTP_URL and STOKER_MAIL_FROM belong together: set both, or neither.");
  else if (!/^smtps?:$/.test(URL.parse(url)?.protocol ?? ""))
    problems.push("STOKER_SMTP_URL must be like smtp://USER:PASSWORD@HOST:587 or smtps://USER:PASSWORD@HOST:465.");
  else if (!/^[^<>\r\n]*<[^\s<>@]+@[^\s<>@]+>$|^[^\s<>@]+@[^\s<>@]+$/.test(from))
    problems.push("STOKER_MAIL_FROM must be an address, or like Stoker <stoker@example.com>.");
  return { url: url ?? "", from: from ?? "" };
}

function readStripe({ problems, text }: Settings) {
  const secretKey = text("STRIPE_SECRET_KEY");
  const webhookSecret = text("STRIPE_WEBHOOK_SECRET");
  const apiBase = text("STRIPE_API_BASE");
  if (secretKey === undefined && webhookSecret === undefined) return undefined;
  if (secretKey === undefined || webhookSecret === undefined)
    problems.push("STRIPE_SECRET_KEY and STRIPE_WEBHOOK_SECRET belong together: set both, or neither.");
  if (apiBase !== undefined && !URL.canParse(apiBase)) problems.push("STRIPE_API_BASE must be a URL.");
  return { secretKey: secretKey ?? "", webhookSecret: webhookSecret ?? "", apiBase };
}
