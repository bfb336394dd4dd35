import { titles } from "./titles.ts";

export const text = {
  title: titles.incidents,
  about: "What is wrong now, most severe first, and what was wrong in the last 90 days.",
  state: "Show",
  states: { open: "Open", ended: "Ended" },
  severity: "Severity",
  summary: "What",
  advice: "What to do",
  subject: "Where",
  began: "Since",
  ended: "Ended",
  none: "No incidents.",
  noHistory: "No incident ended in the last 90 days.",
  counts: { critical: "Critical", warning: "Warning", info: "Information" },
} as const;
