import type { FaultName } from "../domain/new-deployment.ts";
import { titles } from "./titles.ts";

const counted = (count: number, one: string, several = `${one}s`): string =>
  `${count.toLocaleString("en-US")} ${count === 1 ? one : several}`;

export const text = {
  title: titles.deployments,
  about: "A deployment runs a model on its own GPUs. It is billed by the minute while an instance runs.",
  deploy: "Deploy a model",
  noGpus: "none",
  /** GPU type `other`, where no host says what it is. */
  otherGpu: "GPU of unknown type",
  otherGpus: "other GPUs",
  running: (running: number, all: number) => (running === all ? `${running} running` : `${running} of ${all} running`),
  progress: (phase: string, done: string, total: string) => `${phase}: ${done} of ${total}`,
  rolledBack: (why: string) => `Update rolled back: ${why}`,
  perHour: (amount: string) => `${amount}/h`,
  perMonth: (amount: string) => `${amount}/month`,
  noPrice: "no price",
  free: "free of charge",

  list: {
    states: { "": "Not deleted", active: "Active", stopped: "Stopped", failed: "Failed", all: "All" },
    state: "State",
    empty: "No deployments yet. Deploy a model from the catalogue, the hub, or your own storage.",
    emptyFilter: "No deployments in this state.",
    model: "Model",
    status: "Status",
    instances: "Instances",
    gpus: "GPUs per instance",
    cost: "Cost per hour",
    reason: "Reason",
    created: "Created",
    total: { active: "Active", instances: "Instances running", cost: "Cost per hour now", attention: "Need attention" },
    adapterOf: "adapter",
  },

  create: {
    title: titles.newDeployment,
    about: "Choose the weights and the GPUs. You see size, fit and price before anything is created.",
    model: "1. Model",
    catalogue: "Catalogue",
    own: "Repository or address",
    search: "Search the catalogue",
    searchHint:
      "Part of a name or task. The catalogue lists what people run most; a search also asks the hub for others.",
    allTasks: "All tasks",
    task: "Task",
    noModels: "Nothing in the catalogue matches.",
    takeRepository: (name: string) => `Use the repository ${name}`,
    hub: {
      title: "On the hub",
      none: "The hub finds nothing by these words.",
      unreachable: "The model hub cannot be reached",
      unreachableAbout: (reason: string) =>
        `${reason} A deployment of a hub repository waits until its host can download the weights. The catalogue is still listed, and weights from s3:// and oci:// do not need the hub.`,
      downloads: (number: string) => `${number} downloads a month`,
    },
    showAll: (all: number) => `Show all ${all}`,
    chosen: "Chosen",
    choose: "Choose",
    gated: "gated",
    gatedHint: "The hub gives this model only to accounts that accepted its licence. Add a token of such an account.",
    billions: (count: number) =>
      `${count < 1 ? `${Math.round(count * 1000)} M` : `${count.toLocaleString("en-US")} B`} parameters`,
    active: (count: number) => `${count.toLocaleString("en-US")} B active`,
    context: (tokens: number) => `${tokens >= 1000 ? `${Math.round(tokens / 1024)}k` : tokens} tokens of context`,
    weights: (gib: number, quantisation: string) => `${gib.toLocaleString("en-US")} GiB as ${quantisation}`,
    takeGguf: (name: string) => `Use the GGUF files of ${name}`,
    source: "Weights",
    sourceHints: {
      hub: "A hub repository, such as Qwen/Qwen3-8B. Also s3://bucket/prefix, oci://registry/repository:tag and modelscope://owner/name.",
      s3: "Weights in an S3 bucket. The token is ACCESS_KEY_ID:SECRET_ACCESS_KEY.",
      oci: "Weights in an OCI registry. The token is user:password.",
      modelscope: "Weights of ModelScope.",
    },
    revision: "Branch, tag or commit",
    revisionHint: "Default: main.",
    token: "Token",
    tokenHints: {
      hub: "For gated and private repositories. Stored encrypted, never shown.",
      s3: "ACCESS_KEY_ID:SECRET_ACCESS_KEY. Stored encrypted, never shown.",
      oci: "user:password. Stored encrypted, never shown.",
      modelscope: "For private repositories. Stored encrypted, never shown.",
    },
    name: "Name for requests",
    nameHint: (owner: string) => `Requests use it as model. It begins with ${owner}/.`,

    hardware: "2. GPUs",
    hardwareAbout: "Prices are for one instance. Fit is computed by the scheduler for your model and batch size.",
    count: "GPUs per instance",
    gpu: "GPU type",
    perHour: "Per hour",
    perMonth: "Per month",
    availability: "Available now",
    fit: "Fit",
    noHosts: "No host with a GPU has joined. A deployment would wait until one does.",
    anyHost: "Any host (other)",
    freeNow: (count: number) => `${count} or more free`,
    freeExactly: (count: number) => `${count} free`,
    noneFree: "none free now",
    fitOf: {
      checking: "Checking…",
      fits: (memory: string) => (memory === "" ? "Fits; its size is unknown" : `Fits, needs ${memory}`),
      not: "Does not fit now",
      refused: "Refused",
      limit: "Above your GPU limit",
      chooseModel: "Choose a model first",
      unknown: "Unknown: the hub cannot be reached",
    },
    batch: "Concurrent requests per instance",
    batchHint: "Batch size. More requests at a time need more memory for their context.",

    scale: "3. Scale",
    min: "Minimum instances",
    minHint: "0: no instance runs while idle, and nothing is billed. The first request then waits for a start.",
    max: "Maximum instances",
    maxHint: "The upper end of the cost.",
    idle: "Stop after idle (seconds)",
    idleHint: "Requires a minimum of 0. Default: 900.",
    sleep: "Sleep after idle (seconds)",
    sleepHint: "The model leaves the GPU's memory and returns within seconds at the next request. 0: never.",
    targetTtft: "Target time to first token (ms, p95)",
    targetTtftHint: "Adds instances while it is slower.",
    targetQueue: "Target queue time (ms, p95)",
    targetQueueHint: "Adds instances while requests queue longer.",

    advanced: "Engine and arguments",
    engine: "Engine",
    engineAuto: "Chosen by the weights and the GPU",
    context_: "Maximum context (tokens)",
    contextHint: "Less context needs less memory. Default: the model's own.",
    args: "Engine arguments",
    argsHint: "Checked by the server while you type, such as --max-model-len 8192.",

    summary: "Summary",
    memory: "Memory of an instance",
    memoryUnknown: "unknown",
    memoryEstimate: (gib: number) => `weights about ${gib.toLocaleString("en-US")} GiB`,
    engineChosen: "Engine",
    costPerInstance: "Cost per instance",
    costMinimum: "Cost at the minimum",
    costMaximum: "Cost at the maximum",
    whyNot: "Why hosts refuse it",
    waitAnyway: "Create it although it does not fit now",
    waitAnywayHint: "It waits, free of charge, until a host can take it.",
    sizeUnknown:
      "The size of these weights could not be read from the hub. If they do not exist, the deployment fails with the reason and costs nothing.",
    noDryRun:
      "The GPUs are free. The model hub cannot be reached, so nobody knows yet whether the repository exists and how large it is.",
    submit: "Deploy",
    raiseLimit: "Request a higher limit",
    addFunds: "Add funds",
    notYet: {
      fault: "Complete the form first.",
      checking: "The check is running.",
      refused: "The server refuses this request; see the reason.",
      misfit: "It does not fit now. Choose another GPU, or allow it to wait.",
    },
    faults: {
      missing: "Required.",
      noRepository: "A hub repository has the form owner/name.",
      noName: "The form is owner/name, of letters, digits, dots, dashes and underscores.",
      belowMinimum: "Must be at least the minimum, and at least 1.",
      needsMinimumZero: "Requires a minimum of 0.",
    } satisfies Record<FaultName, string>,
    command: "The same on the command line",
  },

  detail: {
    tabs: { overview: "Overview", metrics: "Metrics", logs: "Logs", events: "Events", settings: "Settings" },
    tabsLabel: "Parts of the deployment",
    tryIt: "Try it",
    start: "Start",
    stop: "Stop",
    delete: "Delete",
    started: "Starting.",
    stopped: "Stopping.",
    deleted: "Deleted.",
    stopTitle: (model: string) => `Stop ${model}?`,
    stopBody: (running: number, rate: string) =>
      `Running requests finish first. Then ${counted(running, "instance")} stop${running === 1 ? "s" : ""}${rate === "" ? "" : ` and the cost of ${rate} stops`}. The settings stay; you can start it again.`,
    deleteTitle: (model: string) => `Delete ${model}?`,
    deleteBody: (rate: string) =>
      `Requests to this model fail from now on. Running requests finish first. ${rate === "" ? "The cost stops" : `The cost of ${rate} stops`} when its last instance stops. This cannot be undone.`,
    deleteEndedBody:
      "It runs nothing now. Its settings are removed; past usage stays in your bills. This cannot be undone.",
    whyNoStop: { stopping: "It is stopping already.", deleted: "It is deleted." },
    whyNoTry: "It is not running.",
    back: "All deployments",
    gone: "This deployment is deleted. Its usage stays in your bills; events are kept for 30 days.",
    failure: "Failure",
    failureLog: "Last errors in the log",
    allLogs: "Whole log",
    failureAdvice: "Correct the cause, then start it again. Nothing is billed meanwhile.",
    rolledBack: "The last update was rolled back",
    rolledBackAdvice: "The instances of the version before still serve. Correct the settings, then save them again.",
    waiting: "Waiting for a host",
    waitingAdvice: "It starts as soon as one host can take it. Nothing is billed meanwhile.",
    trouble: "Being retried",
    allHosts: "All hosts",
    hosts: (named: readonly string[], count: number) =>
      named.join(", ") + (count > named.length ? ` and ${counted(count - named.length, "more host")}` : ""),
    stats: {
      instances: "Instances",
      instancesNote: (min: number, max: number) => (min === max ? `fixed at ${min}` : `scales from ${min} to ${max}`),
      cost: "Cost now",
      costNote: (running: number, rate: string) => `${counted(running, "instance")} × ${rate}`,
      spent: "Cost so far",
      belowCent: "< $0.01",
      spentNote: (amount: string) => `${amount} this month`,
      requests: "Requests this month",
      errors: (count: number) => `${counted(count, "failed request")}`,
      ttft: "Time to first token (p95)",
      time: "Request time (p95)",
      ttftNote: (average: string) => `average ${average}, this month`,
      tokens: "Tokens this month",
      tokensNote: (input: string, output: string) => `${input} in, ${output} out`,
    },
    phases: "Start of the newest instance",
    phaseNames: {
      waiting: "Waiting for a host",
      downloading: "Downloading",
      creating: "Creating",
      loading: "Loading",
      ready: "Serving",
    } as Readonly<Record<string, string>>,
    phaseState: { done: "done", now: "now", next: "not yet", failed: "failed" },
    eta: (text: string) => `about ${text} left`,
    endpoint: "Call it",
    endpointAbout: "Set STOKER_API_KEY to a key of your account.",
    noKeys: "Create a key",
    baseUrl: "Endpoint",
    modelName: "Model",
    directUrl: "Only this deployment",
    facts: "Configuration",
    id: "Id",
    task: "Task",
    gpus: "GPUs per instance",
    batch: "Concurrent requests",
    source: "Weights",
    args: "Engine arguments",
    standardArgs: "Settings of the engine",
    none: "none",
    idle: "Stop after idle",
    sleep: "Sleep after idle",
    never: "never",
    seconds: (count: number) => `${count.toLocaleString("en-US")} s`,
    targets: "Autoscaling targets",
    schedules: "Schedules",
    created: "Created",
    updated: "Updated",
    instances: {
      title: "Instances",
      about: "From the events of the last 30 days. Desired and running instances are counted above.",
      empty: "No instance in the last 30 days.",
      id: "Instance",
      phase: "Phase",
      since: "Since",
      placed: "Placed",
      restarts: "Restarts",
      reason: "Reason",
      logs: "Logs",
    },
    oneMore: {
      title: "Room for one more instance",
      fits: "A host can take one more instance now.",
      not: "No host can take one more instance now.",
    },
  },

  rollout: {
    title: "Rollout",
    about: "Instances of the old version serve until those of the new one are ready.",
    counts: (upToDate: number, all: number) => `${upToDate} of ${counted(all, "instance")} up to date`,
    outdated: (count: number) => `${count} outdated`,
    booting: (count: number) => `${count} starting`,
    done: "All instances run the current version.",
  },

  versions: {
    title: "Versions",
    about: "Arguments that this deployment has run with. A return replaces the instances one by one, like an update.",
    name: "versions",
    version: "Version",
    state: "State",
    present: "present",
    serving: "serving",
    created: "Created",
    args: "Arguments and settings",
    none: "none",
    rollBack: "Roll back",
    rollBackTitle: (version: number) => `Return to version ${version}?`,
    rollBackBody: "Instances are replaced one by one. If the new ones do not start, the present version stays.",
    rolledBack: (version: number) => `Returning to version ${version}.`,
  },
  scaleForm: {
    title: "Scale",
    about: "Takes effect within seconds. Running requests finish before an instance stops.",
    submit: "Save scale",
    saved: "Saved.",
    range: (low: string, high: string) => `Cost from ${low} to ${high}.`,
    targets: "Autoscaling targets and schedules",
    schedules: "Schedules",
    schedulesHint: "One per line, such as: mon-fri 08:00-18:00 Europe/Berlin min 2. Empty: none.",
    badSchedule: (line: string) => `“${line}” does not have the form: mon-fri 08:00-18:00 Europe/Berlin min 2.`,
    sleepFixed: "Can only be changed if it was set at creation.",
  },

  updateForm: {
    title: "Update",
    about:
      "New settings are rolled out instance by instance. If a new instance fails, the update is rolled back and the reason shown.",
    submit: "Roll out",
    argsHint: "Replaces all arguments, such as --max-model-len 8192. Unknown ones are refused.",
    saved: "The rollout has begun.",
    nothing: "Nothing was changed.",
    previous: "Settings before your last update",
    restore: "Roll back to them",
    restored: "The rollback has begun.",
    args: "Engine arguments",
    context: "Maximum context (tokens)",
    concurrency: "Concurrent requests per instance",
    concurrencyHint: "A lower value applies at once, a higher one restarts instances.",
    memory: "Share of GPU memory (0.5 to 0.97)",
    prefill: "Tokens per prefill step",
    images: "Images per prompt",
    quantisation: "Quantisation",
    cache: "Type of the KV cache",
    cacheTypes: { "": "Engine's default", auto: "auto", fp8: "fp8" },
    prefix: "Prefix cache",
    prefixValues: { "": "Engine's default", true: "on", false: "off" },
    other: "Another GPU, revision or model",
    otherAbout:
      "They cannot be changed in place. Deploy a changed copy under a new name, move your requests to it, then delete this one.",
    copy: "Deploy a changed copy",
  },

  logs: {
    level: "Level",
    levels: { debug: "All", info: "Info and above", warn: "Warnings and above", error: "Errors" },
    search: "Search the log",
    follow: "Follow",
    instance: "Instance",
    allInstances: "All instances",
    period: "Period",
    periods: { "": "Newest", "1h": "Last hour", "6h": "Last 6 hours", "24h": "Last 24 hours", "7d": "Last 7 days" },
    pretty: "Fields",
    download: "Download",
    empty: "No log lines. Lines appear when an instance starts.",
    noMatch: "No line matches.",
    shown: (shown: number, all: number, limit: number) =>
      `${shown.toLocaleString("en-US")} of ${all.toLocaleString("en-US")} lines${all >= limit ? ` (the newest ${limit.toLocaleString("en-US")})` : ""}`,
    label: "Log",
    toEnd: "To the newest line",
    expand: "Show the whole line",
  },

  events: {
    empty: "No events in the last 30 days.",
    more: "Older events",
    about: "Kept for 30 days.",
    filter: "Show",
    filters: { "": "All", deployment: "Deployment", instance: "Instances" },
    of: (kind: string, state: string): string => {
      const [noun, verb = ""] = kind.split(".");
      if (noun === "deployment")
        switch (verb) {
          case "created":
            return "Created";
          case "scaled":
            return `Desired instances set to ${state}`;
          case "specified":
            return `Settings changed to version ${state}`;
          case "reverted":
            return "Update rolled back";
          default:
            return `Status: ${verb}`;
        }
      switch (verb) {
        case "placed":
          return "Instance placed on a host";
        case "waiting":
          return "Instance does not start yet";
        case "restarted":
          return `Instance restarted (${state})`;
        case "removed":
          return "Instance removed";
        case "ready":
          return "Instance serves";
        default:
          return `Instance ${verb}`;
      }
    },
    instance: (id: string) => `instance ${id}`,
  },

  metrics: {
    period: "Period",
    periods: { "now-1h": "1 h", "": "5 h", "now-24h": "24 h", "now-7d": "7 d", "now-30d": "30 d" },
    none: "No requests in this period. A request appears seconds after it ends.",
    requests: "Requests",
    succeeded: "succeeded",
    failed: "failed",
    firstByte: "Time to first byte",
    total: "Request time",
    queue: "Queue time",
    output: "Output tokens per second",
    median: "median",
    p95: "p95",
    outcomes: "Outcomes",
    outcome: "Outcome",
    meaning: "Meaning",
    ms: (value: string) => `${value} ms`,
    perSecond: (value: string) => `${value}/s`,
  },
} as const;
