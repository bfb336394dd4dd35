// Words that the operator's pages share.
export const text = {
  note: "Reason",
  noteHint: "Kept in the audit log.",
  customerNote: "Note for the customer",
  customerNoteHint: "The customer sees it, and the audit log keeps it.",
  account: "Account",
  time: "Time",
  status: "Status",
  created: "Created",
  email: "E-mail",
  actions: "Actions",
  none: "none",
  noLimit: "no limit",
} as const;
