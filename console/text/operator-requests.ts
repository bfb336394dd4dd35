// The operator's request log.
import { titles } from "./titles.ts";

export const text = {
  title: titles.operatorRequests,
  about: "Figures of finished requests of every account for 60 days, without their content.",
  find: "Find request",
  id: "Request id (x-request-id)",
  idHint: "In the headers of every response and in every error message.",
  account: "Account (uid)",
  byId: "By its id",
  byAccount: "By account",
  choose: "All requests of one account.",
  failures: {
    title: "Failures of all accounts",
    about:
      "Requests that reached a host and failed. Refusals before that (401, 402, 404, 429) are counted in the overview, not listed.",
    periods: { "": "1 h", "now-24h": "24 h", "now-7d": "7 d" },
    account: "Account",
    empty: "No failed requests in this period.",
    more: "Only the newest 200 are shown. Choose a shorter period or an account.",
  },
  period: "Period",
  periods: { "now-1h": "1 h", "now-24h": "24 h", "": "7 d", "now-30d": "30 d", "now-60d": "60 d" },
  outcomeFilter: "Outcome",
  outcomes: { "": "All", true: "Failed" },
  model: "Model",
  empty: "No requests in this period.",
  request: "Request",
  time: "Time",
  outcome: "Outcome",
  firstByte: "First byte",
  total: "Total",
  tokensIn: "Tokens in",
  tokensOut: "Tokens out",
  cost: "Cost",
} as const;
