// Use by day and the log of requests of one account, which asked once.

import { createEndUsers } from "../../control-plane/billing/end-users.ts";
import type { Rejection } from "../../control-plane/billing/rejections.ts";
import { type LoggedRequest, requestUnknown } from "../../control-plane/billing/request-log.ts";
import { createUsageDays } from "../../control-plane/billing/usage-days.ts";
import type { HttpDeps } from "../../control-plane/http/core/create-http.ts";
import type { AccountId, KeyId, RequestId } from "../../proto/ids.ts";
import { noUsage } from "../../proto/usage-record.ts";

/** A day of February 2026. */
export const dayOfUse = "2026-02-03";
const atMs = Date.UTC(2026, 1, 3, 12);

export function fakeUsageLog(account: AccountId, key: KeyId): Pick<HttpDeps, "usageDays" | "endUsers" | "requestLog"> {
  const request: LoggedRequest = {
    ...noUsage,
    id: "RequestOfAda" as RequestId,
    attempt: 1,
    isVoided: false,
    account,
    key,
    model: "org/model",
    deployId: "DpM4BkrjEspUwmTa",
    instanceId: "instance-1",
    endReason: "stop",
    tier: "default",
    user: "ann",
    httpStatus: 200,
    admittedAtMs: atMs,
    endedAtMs: atMs + 250,
    queueMs: 5,
    firstByteMs: 20,
    totalMs: 250,
    inputTokens: 6,
    outputTokens: 3,
    characters: 0,
    audioMs: 0,
    images: 0,
    charge: 70n,
  };
  const rejection: Rejection = {
    id: "RejectedOfAda" as RequestId,
    account,
    key,
    atMs,
    model: "org/unknown",
    route: "/v1/chat/completions",
    status: 404,
    code: "model_not_found",
    label: "mine",
    otherCount: 3,
  };
  const store = {
    dayUse: async (_account: AccountId, by: string) => ({
      uses: [
        {
          dayMs: Date.UTC(2026, 1, 3),
          of: by === "key" ? key : by === "token" ? "jwt/of-ada" : "org/model",
          key: by === "token" || by === "model_and_key" ? key : undefined,
          limit: by === "token" ? 2_500_000_000n : null,
          requests: 1,
          inputTokens: 6,
          outputTokens: 3,
          cost: 70n,
        },
      ],
      isTruncated: false,
    }),
    divideNext: async () => false,
    projectsOf: async () => [],
    keysOf: async () => [{ key, name: "auto" }],
  };
  return {
    usageDays: createUsageDays({ store, unixMs: () => atMs }),
    endUsers: createEndUsers({
      unixMs: () => atMs,
      store: {
        endUserSums: async (_account, { by }, after, limit) =>
          ["ann, of sales", undefined]
            .map((user) => ({
              period: by === "day" ? dayOfUse : dayOfUse.slice(0, 7),
              user,
              requests: 1,
              inputTokens: 6,
              outputTokens: 3,
              cost: 70n,
            }))
            .slice(after ? 1 : 0, (after ? 1 : 0) + limit),
        eraseEndUser: async (_account, name) => name === "ann, of sales",
      },
    }),
    requestLog: {
      list: async (whose, _filter, after, limit) => {
        if (after !== undefined && after !== request.id) throw requestUnknown();
        return { requests: whose === account ? [request].slice(0, limit) : [], hasMore: false };
      },
      failures: async (_caller, _fromMs, limit) => ({
        requests: [{ ...request, endReason: "engine_error" }].slice(0, limit),
        hasMore: false,
      }),
      rejections: async (_caller, whose, _filter, after, limit) => {
        if (after !== undefined && after !== rejection.id) throw requestUnknown();
        return {
          rejections: whose === undefined || whose === account ? [rejection].slice(0, limit) : [],
          hasMore: false,
        };
      },
      find: async (id, whose) => {
        if ((whose !== undefined && whose !== account) || (id !== request.id && id !== rejection.id))
          throw requestUnknown();
        return id === request.id ? { attempts: [request], rejection: undefined } : { attempts: [], rejection };
      },
    },
  };
}
