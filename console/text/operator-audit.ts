import { titles } from "./titles.ts";

export const text = {
  title: titles.operatorAudit,
  about: "Who changed or viewed what, newest first.",
  of: "Acts by or on this account, newest first.",
  actor: "Actor",
  account: "Account",
  system: "system",
  action: "Action",
  actionHint: "Action or its noun",
  from: "From (UTC)",
  to: "To (UTC)",
  empty: "No entries match.",
  time: "Time",
  actorColumn: "Actor",
  subject: "Subject",
  subjectId: "Id of the subject",
  accountColumn: "Account",
  note: "Reason",
  change: "Change",
  id: "Id",
  ip: "Address",
  actorEmail: "E-mail of the actor",
  accountEmail: "E-mail of the account",
  all: "CSV of all matches",
  allDone: (count: number, max: number) =>
    count < max
      ? `${count.toLocaleString("en-US")} entries saved.`
      : `The newest ${count.toLocaleString("en-US")} entries are saved. Set a period for older ones.`,
  value: "value",
} as const;
