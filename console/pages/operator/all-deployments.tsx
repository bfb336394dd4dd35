import type { ReactNode } from "react";
import { text } from "../../text/operator-deployments.ts";
import { Page } from "../../ui/page.tsx";
import { SeenDeployments } from "./seen-deployments.tsx";

export function AllDeployments(): ReactNode {
  return (
    <Page title={text.title} about={text.about}>
      <SeenDeployments />
    </Page>
  );
}
