// The operator's request log.
import { titles } from "./titles.ts";

export const text = {
  title: titles.operatorRequests,
  about: "Figures of finished requests of every account for 60 days, without their content.",
  find: "Find request",
  id: "Request id (x-request-id)",
  idHint: "In the headers of every response and in every error message.",
  account: "Name, e-mail address or uid",
  byId: "By its id",
  byAccount: "By account",
  choose: "All requests of one account.",
  failures: {
    title: "Failures of all accounts",
    about: "Requests that reached a host and failed.",
    periods: { "": "1 h", "now-24h": "24 h", "now-7d": "7 d" },
    account: "Account",
    empty: "No failed requests in this period.",
    more: "Only the newest 200 are shown. Choose a shorter period or an account.",
  },
  rejected: {
    title: "Rejected requests",
    about:
      "Requests of known accounts that ended with an error before a host recorded them: a limit (429), no funds (402), an unknown model (404), an invalid body. Of many with one code in a minute, or of one account in a day, only some are kept.",
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
  firstByte: "First token",
  total: "Total",
  input: "Input",
  output: "Output",
  cost: "Cost",
} as const;
