// Routes of the data path for the control plane, besides inference: instance logs, and a proof of the address.
import type { Logger } from "pino";
import type { InstanceId } from "../../proto/ids.ts";
import type { ContainerDriver, LogRange } from "../reconcile/driver.ts";
import type { Answer } from "./answer.ts";
import { answerJson, errorBody } from "./refuse.ts";

export type ReadLogs = ContainerDriver["logs"];

const logsBoundMs = 15_000;

/** `?from=&to=` Unix ms, `at` the first as lines have it, `limit` 1..1000 (100). Answers `{"lines":[[at, line],...]}`. */
export async function answerLogs(
  url: string,
  answer: Answer,
  instance: InstanceId,
  read: ReadLogs,
  log: Logger,
): Promise<void> {
  const query = readQuery(new URL(url, "http://agent").searchParams);
  if (typeof query === "string")
    return answerJson(answer, 400, errorBody(query, "invalid_request_error", "bad_request"));
  const gone = new AbortController();
  const timer = setTimeout(() => gone.abort(), logsBoundMs);
  answer.onClose(() => gone.abort());
  try {
    const lines = await read(instance, query, gone.signal);
    answerJson(answer, 200, JSON.stringify({ lines: lines.map((l) => [l.at, l.line]) }));
  } catch (error) {
    log.warn({ err: error, instance }, "could not read instance logs");
    answerJson(answer, 503, errorBody("the instance's logs cannot be read now; try again", "server_error", "logs"));
  } finally {
    clearTimeout(timer);
  }
}

function readQuery(params: URLSearchParams): LogRange | string {
  const number = (name: string) => {
    const text = params.get(name);
    return text === null || text === "" ? undefined : Number(text);
  };
  const fromMs = number("from");
  const toMs = number("to");
  const limit = number("limit") ?? 100;
  for (const [name, value] of Object.entries({ from: fromMs, to: toMs, limit }))
    if (value !== undefined && (!Number.isSafeInteger(value) || value < 0)) return `${name} must be a whole number`;
  if (limit < 1 || limit > 1000) return "limit must be between 1 and 1000";
  const fromAt = params.get("at");
  if (fromAt !== null && !/^\d{1,12}\.\d{9}$/.test(fromAt)) return "at must be unix seconds with nanoseconds";
  return {
    limit,
    ...(fromMs === undefined ? {} : { fromMs }),
    ...(fromAt === null ? {} : { fromAt }),
    ...(toMs === undefined ? {} : { toMs }),
  };
}
