import { titles } from "./titles.ts";

export const text = {
  title: titles.projects,
  about:
    "A project groups API keys under one monthly budget. A key belongs to one project or none, and cannot leave it.",
  create: "Create project",
  created: "Project created.",
  change: "Change",
  changeTitle: (name: string) => `Change ${name}`,
  save: "Save",
  saved: "Project saved.",
  delete: "Delete",
  deleteTitle: (name: string) => `Delete ${name}?`,
  deleteBody: "Its usage stays in the reports.",
  deleted: "Project deleted.",
  hasKeys: "Revoke its keys first.",
  name: "Name",
  budget: "Monthly budget (USD)",
  budgetHint: "For all its keys together, per calendar month (UTC). Empty: no budget. 0 blocks them.",
  noBudget: "none",
  spent: "Spent this month",
  keys: "Keys",
  createdAt: "Created",
  usage: "Usage",
  empty: "No projects. Create one, then create API keys in it.",
} as const;
