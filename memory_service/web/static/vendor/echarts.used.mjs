export { init, connect, disconnect, use, version, registerTheme } from 'echarts/core';
import { use } from 'echarts/core';
import { LineChart, BarChart, ScatterChart } from 'echarts/charts';
import { GridComponent, TooltipComponent, LegendPlainComponent, LegendScrollComponent, DataZoomInsideComponent, DataZoomSliderComponent, MarkLineComponent, MarkPointComponent } from 'echarts/components';
import { CanvasRenderer } from 'echarts/renderers';
use([LineChart, BarChart, ScatterChart, GridComponent, TooltipComponent, LegendPlainComponent, LegendScrollComponent, DataZoomInsideComponent, DataZoomSliderComponent, MarkLineComponent, MarkPointComponent, CanvasRenderer]);
