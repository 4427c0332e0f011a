// What makes the pages live. They are whole without it: every page and form works as plain HTML.
import { drawCharts, redrawCharts } from "./charts.js";
import { follow } from "./live.js";
import { begin as beginTheme } from "./theme.js";

beginTheme(redrawCharts);
if (document.body.dataset.live) follow(document.body.dataset.live, drawCharts);
drawCharts(document);
