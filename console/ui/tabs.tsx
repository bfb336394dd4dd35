// Parts of a page, one of them shown. The address stores which.
import { Skeleton, Tabs } from "@mantine/core";
import { type ReactNode, Suspense } from "react";
import { useFilter } from "../app/place.ts";

interface PageTabsProps {
  /** Names the list of tabs. */
  readonly label: string;
  /** Value and text of each; the first is shown where the address has none. */
  readonly tabs: readonly (readonly [value: string, text: string])[];
  /** Panels, which may load later. */
  readonly children: ReactNode;
}

export function PageTabs({ label, tabs, children }: PageTabsProps): ReactNode {
  const [tab, setTab] = useFilter("tab");
  const first = tabs[0]?.[0] ?? "";
  return (
    <Tabs value={tab || first} onChange={(value) => setTab(value === first ? "" : (value ?? ""))} keepMounted={false}>
      <Tabs.List aria-label={label} mb="md" className="tabs-row">
        {tabs.map(([value, text]) => (
          <Tabs.Tab key={value} value={value}>
            {text}
          </Tabs.Tab>
        ))}
      </Tabs.List>
      <Suspense fallback={<Skeleton height={180} />}>{children}</Suspense>
    </Tabs>
  );
}
