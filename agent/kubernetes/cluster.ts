// Client of one namespace of a cluster: every call with a limit, every failure with a reason.
import {
  type ConfigurationOptions,
  CoordinationV1Api,
  CoreV1Api,
  KubeConfig,
  Observable,
  type ObservableMiddleware,
  ResourceV1Api,
  Watch,
} from "@kubernetes/client-node";
import type { Logger } from "pino";
import { pause } from "../../proto/pause.ts";
import { faultOf } from "./api-fault.ts";

const callLimitMs = 30_000;

export interface ClusterOptions {
  /** Path of a kubeconfig; undefined: the service account of this Pod. */
  readonly kubeconfig?: string | undefined;
  readonly namespace: string;
}

export type Cluster = ReturnType<typeof connectCluster>;

/** Options of a call. The client takes a signal only so. */
export type CallOptions = ConfigurationOptions<ObservableMiddleware>;

/** Throws when the kubeconfig is unusable. */
export function connectCluster({ kubeconfig, namespace }: ClusterOptions) {
  const config = new KubeConfig();
  if (kubeconfig === undefined) config.loadFromCluster();
  else config.loadFromFile(kubeconfig);
  const core = config.makeApiClient(CoreV1Api);
  return {
    namespace,
    core,
    coordination: config.makeApiClient(CoordinationV1Api),
    resource: config.makeApiClient(ResourceV1Api),
    watch: new Watch(config),
    /** Throws DriverError, or the signal's reason. `work` hands the options to each call. */
    async call<T>(signal: AbortSignal, work: (options: CallOptions) => Promise<T>, limitMs = callLimitMs): Promise<T> {
      const bound = AbortSignal.any([signal, AbortSignal.timeout(limitMs)]);
      try {
        signal.throwIfAborted();
        return await work(boundedBy(bound));
      } catch (error) {
        signal.throwIfAborted();
        throw faultOf(error);
      }
    },
  };
}

function boundedBy(signal: AbortSignal): CallOptions {
  const middleware: ObservableMiddleware = {
    pre(request) {
      request.setSignal(signal);
      return new Observable(Promise.resolve(request));
    },
    post: (response) => new Observable(Promise.resolve(response)),
  };
  return { middleware: [middleware], middlewareMergeStrategy: "append" };
}

const firstDelayMs = 500;
const longestDelayMs = 15_000;
/** A server ends it then; what changed in between is observed. */
const watchSeconds = 300;

/**
 * Calls back for every change of a Pod with these labels, and whenever changes may have been missed: a watch that ends (also
 * with 410) starts again at the current state. Ends with the signal.
 */
export async function followPods(
  { watch, namespace }: Pick<Cluster, "watch" | "namespace">,
  labelSelector: string,
  onChange: () => void,
  log: Logger,
  signal: AbortSignal,
): Promise<void> {
  const path = `/api/v1/namespaces/${namespace}/pods`;
  for (let delayMs = firstDelayMs; !signal.aborted; ) {
    let request: AbortController | undefined;
    let hasBegun = false;
    const why = await new Promise<unknown>((resolve) => {
      const stop = () => {
        request?.abort();
        resolve(undefined);
      };
      signal.addEventListener("abort", stop, { once: true });
      const end = (reason: unknown) => {
        signal.removeEventListener("abort", stop);
        resolve(reason);
      };
      const onEvent = (type: string, object: { readonly message?: string }) => {
        if (type === "ERROR") return end(new Error(object.message ?? "the watch failed"));
        hasBegun = true;
        if (type !== "BOOKMARK") onChange();
      };
      watch
        .watch(path, { labelSelector, timeoutSeconds: watchSeconds, allowWatchBookmarks: true }, onEvent, end)
        .then((made) => {
          request = made;
          if (signal.aborted) stop();
        }, end);
    });
    request?.abort();
    if (signal.aborted) return;
    onChange();
    // Without an event for 30 s the client ends it as well.
    const isUsual = why === null || why === undefined || (why as Error).name === "TimeoutError";
    if (!isUsual) log.warn({ err: why }, "could not watch the Pods; will retry");
    delayMs = isUsual || hasBegun ? firstDelayMs : Math.min(2 * delayMs, longestDelayMs);
    await pause(delayMs, signal);
  }
}
