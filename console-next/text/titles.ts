// Titles of pages. The menu needs them before a page is opened; the other texts of an area load with its pages.
export const titles = {
  adapters: "Adapters",
  agents: "Agents",
  batches: "Batches",
  billing: "Billing",
  containers: "GPU rentals",
  deployments: "Deployments",
  files: "Files",
  invoice: "Invoice",
  invoices: "Invoices",
  newDeployment: "Deploy a model",
  voices: "Voices",
} as const;
