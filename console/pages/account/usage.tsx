import type { ReactNode } from "react";
import { useFilter } from "../../app/place.ts";
import { text } from "../../text/usage.ts";
import { Choice } from "../../ui/choice.tsx";
import { Page } from "../../ui/page.tsx";
import { UsageByDay } from "./usage-days.tsx";
import { UsageByMonth } from "./usage-months.tsx";

export function Usage(): ReactNode {
  const [view, setView] = useFilter("view");
  return (
    <Page
      title={text.title}
      about={text.about}
      actions={<Choice label={text.view} options={text.views} value={view} onChange={setView} />}
    >
      {view === "months" ? <UsageByMonth /> : <UsageByDay />}
    </Page>
  );
}
