// A sign and a colour for each status word of the API.
const signs: readonly { readonly sign: string; readonly color: string; readonly words: readonly string[] }[] = [
  {
    sign: "●",
    color: "green",
    words: [
      "deployed",
      "ready",
      "running",
      "paid",
      "delivered",
      "approved",
      "done",
      "completed",
      "healthy",
      "active",
      "credited",
      "ended",
      "verified",
    ],
  },
  {
    sign: "✕",
    color: "red",
    words: [
      "failed",
      "overdue",
      "exhausted",
      "unreachable",
      "revoked",
      "rejected",
      "expired",
      "lost",
      "faulty",
      "timed out",
      "host lost",
      "cancelled by drain",
    ],
  },
  {
    sign: "○",
    color: "gray",
    words: ["stopped", "deleted", "inactive", "withdrawn", "cancelled", "asleep", "free", "removed", "used"],
  },
];
const other = { sign: "◐", color: "yellow" };

export const styleOf = (status: string) => signs.find(({ words }) => words.includes(status)) ?? other;
