export const text = {
  sections: { start: "", build: "Build", money: "Money", account: "Account", operator: "Operator" },
  skip: "Skip to the content",
  menu: "Menu",
  openMenu: "Open the menu",
  search: "Search pages and actions",
  nothingFound: "Nothing found",
  colorScheme: "Change between light and dark",
  account: "Account menu",
  viewing: (name: string, email: string) =>
    `You view the account of ${name} (${email}), read-only. The audit log has it.`,
  endView: "End view",
  accounts: "Switch account",
  actsAs: (name: string, role: string) => `${name}, ${role}`,
  signOut: "Sign out",
  docs: "Documentation",
  apiReference: "API reference",
} as const;
